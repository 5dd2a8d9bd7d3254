"""How hard batches planned in cells remain where there are few centres to a cell, as very large sets have them.

There are 4,096 centres at most, and cells of 131,072 pairs: 53 to a cell at 10⁷ pairs, 5 at 10⁸, one half at 10⁹. The
same shares are tried on 262,144 pairs in cells of 8,192, against a plan in one piece. The set is that of S5, B = 64.

    python benchmarks/few_centers.py --output FILE     about five minutes
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.runs import store
from benchmarks.planning.sets import heavy_tailed_blocks

from batchcut.scale import _memory, _plan_in_cells, open_pair_files, plan_in_cells
from batchcut.selection import Cut, Shuffle

ROWS, CELL, DIM, BATCH_SIZE, TEMPERATURE = 262_144, 8192, 128, 64, 0.05
CENTERS = (1024, 256, 160, 64, 32, 16)


def main() -> None:
    """Plans the set in one piece and with fewer and fewer centres."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    blocks = list(heavy_tailed_blocks(ROWS, dim=DIM))
    u, v = (np.concatenate([block[side] for block in blocks]).astype(np.float16) for side in range(2))
    whole = Cut(temperature=TEMPERATURE)(u, v, batch_size=BATCH_SIZE).mean_loss
    shuffled = Shuffle(temperature=TEMPERATURE)(u, v, batch_size=BATCH_SIZE).mean_loss
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as name:
        for side, values in zip("uv", (u, v), strict=True):
            np.save(Path(name) / f"{side}.npy", values)
        for count in CENTERS:
            rows.append({"centers_in_cell": count * CELL / ROWS, "loss": in_cells(Path(name), count)})
            print(f"{rows[-1]['centers_in_cell']:5.1f} centres to a cell: {rows[-1]['loss'] / whole:.3f}", flush=True)
    store(options.output, {"whole": whole, "shuffled": shuffled, "rows": rows})


def in_cells(folder: Path, centers: int) -> float:
    """The mean loss of a plan in small cells, with so many centres."""
    setattr(_memory, "MOST_IN_CELL", CELL)  # noqa: B010 - mypy knows another owner
    setattr(_plan_in_cells, "center_count", lambda *_: centers)  # noqa: B010
    pairs = open_pair_files(folder / "u.npy", folder / "v.npy")
    given: Any = {"selector": Cut(temperature=TEMPERATURE), "parts": folder / f"parts-{centers}"}
    return plan_in_cells(pairs, batch_size=BATCH_SIZE, **given).mean_loss


if __name__ == "__main__":
    main()
