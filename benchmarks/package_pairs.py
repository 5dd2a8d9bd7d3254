"""PAIRS, for who has no such file: Debian's packages, short and long descriptions, as features of a sentence encoder.

`package_pairs.py OUTPUT` embeds descriptions from apt's lists by MiniLM, as it comes, and writes their first principal
components as `pairs:OUTPUT` reads them. All packages of one source are in one part. Needs the extras `bench` and
`integrations`. What is stored in `results/` was measured on another such file, of other texts and another encoder, on
which top-1 is about eight points higher, and planned batches gain more: 4.2 points, where here it is 2.7 (one seed).
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.runs import write_pairs
from benchmarks.loops.text_sets import LISTS, load

from batchcut.data import Pairs, Split


def reduced(split: Split, width: int) -> Split:
    """The first so many principal components of both parts, those of the training rows of both sides, in float16."""
    assert isinstance(split.train, Pairs)
    assert isinstance(split.test, Pairs)
    components = PCA(width, svd_solver="full").fit(np.concatenate([split.train.u, split.train.v]))

    def shortened(part: Pairs) -> Pairs:
        u, v = (components.transform(side).astype(np.float16) for side in (part.u, part.v))
        return Pairs(name=part.name, u=u, v=v)

    return Split(shortened(split.train), shortened(split.test))


def main() -> None:
    """Embeds and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the .npz file to write")
    parser.add_argument("--lists", type=Path, default=LISTS, help="folder of apt's lists")
    parser.add_argument("--train", type=int, default=20_000, help="pairs to train on")
    parser.add_argument("--tested", type=int, default=2_000, help="pairs of the test part")
    parser.add_argument("--width", type=int, default=128, help="of the features")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"output must not exist yet; got {options.output}")
    from benchmarks.loops.texts import Method, embedded, trained  # here, since only what embeds needs all of it

    texts = load("debian", options.lists)
    model = trained([], Method(), seed=0, batch=1, steps=0, rate=0.0).model
    parts = []
    for pairs, count in ((texts.train, options.train), (texts.test, options.tested)):
        u, v = embedded(model, pairs[:count])
        parts.append(Pairs(name="packages", u=u, v=v))
    write_pairs(reduced(Split(*parts), options.width), options.output)
    print(f"{options.train:,} and {options.tested:,} pairs in {options.output}; texts {texts.digest}")


if __name__ == "__main__":
    main()
