"""Entry: `python benchmarks/selection.py --help`. The run itself is in `selection_bench.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.selection_bench import main

if __name__ == "__main__":
    sys.exit(main())
