"""A shuffled batch and a planned one with real samples: functions of the installed libraries, by their sentences.

`example_batches.py RUN` reads the last plan of a finished run of `batchcut train --recipe pairs --data functions` and
stores, with `--output`, the first eight sentences of the planned batch of median loss and of a shuffled batch.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.pages.markdown import table_of

from batchcut.data import load_functions
from batchcut.selection import BatchPlan

SHOWN = 8


def example_batches(plan: BatchPlan, sentences: list[str]) -> dict[str, list[str]]:
    """Some sentences of a random batch and of the batch of median loss."""
    median = plan.batches[np.argsort(plan.losses, kind="stable")[len(plan) // 2]]
    random = np.random.default_rng(0).choice(plan.count, SHOWN, replace=False)
    chosen = {"shuffled": random, "planned": median[:SHOWN]}
    return {name: [sentences[i] for i in rows] for name, rows in chosen.items()}


def table(facts: dict[str, Any]) -> str:
    """Both batches side by side."""
    rows = (map(_escaped, row) for row in zip(facts["shuffled"], facts["planned"], strict=True))
    return table_of(("of a shuffled batch", "of a planned batch"), rows)


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\|`*_<>[]" else sign for sign in text)


def main() -> None:
    """Prints the table and stores what it is made of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run on functions")
    parser.add_argument("--output", type=Path, help="JSON file for the sentences")
    options = parser.parse_args()
    plan = BatchPlan.load(max((options.run / "plans").glob("*.npz")))
    facts = example_batches(plan, list(load_functions().train.sentences))
    if options.output is not None:
        options.output.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(facts))


if __name__ == "__main__":
    main()
