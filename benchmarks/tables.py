"""Writes the tables of the documentation from the JSON that the benchmarks wrote.

What stands in README.md and docs/ between `<!-- begin NAME -->` and `<!-- end NAME -->` is replaced by the table of
that name. Where a benchmark has not been run there is no file, and the table says so.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import example_batches
from benchmarks.pages import (
    choices_report,
    headline,
    images_report,
    pictures,
    scale_report,
    selection_report,
    training_report,
)
from benchmarks.pages.markdown import table_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ABSENT = "*not measured yet*"
PART = re.compile(
    r"(?P<begin><!-- begin (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(?P<end><!-- end (?P=name) -->)", re.DOTALL
)

Facts = dict[str, Any]


class Source(NamedTuple):
    """Files in benchmarks/results/, and how a table is made of what they hold."""

    files: tuple[str, ...]
    table: Callable[..., str]


def training_table(facts: Facts) -> str:
    """Retrieval of pairs at equal steps, from `training.py --output`; images have a page of their own."""
    heads = ("data", "objective", "batches", "seeds", "top-1", "gain", "steps to the shuffled result", "time added")
    rows = []
    for row in (row for row in facts["summary"] if not row["data"].startswith("images")):
        spread = "" if row["spread"] is None else f" ± {100 * row['spread']:.2f}"
        top1 = f"{100 * row['top1']:.2f}{spread} %"
        share = "not reached by all" if row["share_of_steps"] is None else f"{row['share_of_steps']:.0%}"
        gain = "–" if row["gain"] is None else f"{100 * row['gain']:+.2f}"
        about = (row["data"], row["objective"], row["method"], row["seeds"])
        rows.append((*about, top1, gain, share, _percent(row, "added_time")))
    return table_of(heads, rows)


def overhead_table(facts: Facts) -> str:
    """What is added to an epoch, from `overhead.py --json`."""
    images = "CIFAR-100 images" if facts["real"] else "images of noise"
    steps = f"{facts['steps']} steps of {1000 * facts['step']:.1f} ms, {facts['timed']} of each loop timed"
    parts = ("recording", "planning", "sampling")
    added = f"{facts['added']:.2%} by the clock, {facts['cpu_added']:.2%} of the processors' time"
    background = facts["steps"] * facts["background"]
    rows = [
        ("the epoch, shuffled", f"{facts['epoch']:.2f}", ""),
        *((name, f"{facts[name]:.3f}", f"{facts[name] / facts['epoch']:.2%}") for name in parts),
        ("together", f"{facts['added'] * facts['epoch']:.3f}", added),
        ("the background, where it is on", f"{background:.3f}", f"{background / facts['epoch']:.2%}"),
    ]
    about = f"{facts['images']:,} {images}, B = {facts['batch_size']}, {steps}."
    return "\n".join([about, "", table_of(("part", "seconds of an epoch", "share of the epoch"), rows)])


def plan_ahead_table(facts: Facts) -> str:
    """How long training waits for plans with and without `plan_ahead`, from `overhead.py --seeds --json`."""
    if "waiting" not in facts:
        return ABSENT
    waiting = facts["waiting"]
    rows = []
    for row in waiting["summary"]:
        most = f"{row['most']:.1%}" if "most" in row else "–"
        cells = [row["set"], f"{row['plan_ahead']:g}", f"{row['waited']:.3f}", f"{row['epoch']:.2f}"]
        rows.append([*cells, f"{row['share']:.2%}", most, f"{_spread(row['top1'], row['spread'])} %"])
    made = table_of(("data", "`plan_ahead`", "waits, s", "epoch, s", "share", "at most", "top-1"), rows)
    seeds = max(row["seeds"] for row in waiting["summary"])
    return "\n".join([made, "", f"{waiting['epochs']} epochs, {seeds} seeds: means ± standard deviation."])


def batch_norm_table(facts: Facts) -> str:
    """Scores with batch norm and without, from `batch_norm.py --json`."""
    rows = []
    for row in facts["summary"]:
        top1 = f"{_spread(row['top1'], row['spread'])} %"
        rows.append((row["norm"], row["method"], top1, _percent(row, "renewed"), _percent(row, "variance")))
    made = table_of(("norm", "batches", "top-1", "with new statistics", "variance share"), rows)
    seeds = {row["seeds"] for row in facts["summary"]}
    return "\n".join([made, "", f"{facts['epochs']} epochs, {max(seeds)} seeds: means ± standard deviation."])


def effective_size_table(facts: Facts) -> str:
    """Effective sizes by several gradients, from `effective_size.py --output`."""
    epochs = sorted({row["epochs"] for row in facts["rows"]})
    kinds = list(dict.fromkeys(row["batches"] for row in facts["rows"]))
    heads = ["gradient with respect to", *(f"{kind}, after {epoch}" for kind in kinds for epoch in epochs)]
    rows = []
    found = {(row["by"], row["batches"], row["epochs"]): row for row in facts["rows"]}
    for by in dict.fromkeys(row["by"] for row in facts["rows"]):
        cells = (_size(found.get((by, kind, epoch))) for kind in kinds for epoch in epochs)
        rows.append(["`effective_batch_size`" if by == "effective_batch_size" else by, *cells])
    return table_of(heads, rows)


PLANS = ["full batch", "shuffled", "Cut"]
EXTRAS = {
    "nothing": "none",
    "old": "old, 15 % of the mass",
    "fresh": "fresh, 15 % of the mass",
    "trained": "with gradient, 15 % of the mass",
    "old, push 2": "old, 15 % of the mass, push doubled",
    "old, weight 1": "old, weight 1",
    "old, weight 1, push 2": "old, weight 1, push doubled",
    "fresh, weight 1": "fresh, weight 1",
    "trained, weight 1": "with gradient, weight 1",
}


def background_runs_table(facts: Facts) -> str:
    """What further candidates bring to shuffled and planned batches, from `background.py --output`."""
    heads = ["data", "batches", "further candidates", "seeds", "top-1", "gain"]
    heads += ["wrong, another kind", "wrong, own kind"]
    rows = []
    for data, found in facts.items():
        keys = dict.fromkeys((run["plan"], run["extra"]) for run in found["runs"] if run["extra"] in EXTRAS)
        for plan, extra in sorted(keys, key=lambda key: (PLANS.index(key[0]), list(EXTRAS).index(key[1]))):
            runs = [run for run in found["runs"] if (run["plan"], run["extra"]) == (plan, extra)]
            plain = {run["seed"]: run for run in found["runs"] if (run["plan"], run["extra"]) == (plan, "nothing")}
            last = [run["epochs"][-1] for run in runs]
            gains = [run["epochs"][-1]["top1"] - plain[run["seed"]]["epochs"][-1]["top1"] for run in runs]
            kinds = [next(iter(row["kinds"].values())) for row in last]
            top1, gain = _mean(row["top1"] for row in last), "–" if extra == "nothing" else f"{_mean(gains):+.1f}"
            wrong = (f"{_mean(row[name] for row in kinds):.1f}" for name in ("wrong_kind", "wrong_in_kind"))
            rows.append([data, plan, EXTRAS[extra], len(runs), f"{top1:.1f}", gain, *wrong])
    return table_of(heads, rows)


def background_gradients_table(facts: Facts) -> str:
    """What batches keep of the full-batch gradient by the negatives of two sorts, from `background.py --output`."""
    heads = ["batches", "further candidates", "mass, own kind", "mass, other kinds", "kept, own kind"]
    heads += ["kept, other kinds", "of the own-kind part", "of the other part", "cosine"]
    found = facts["pairs"]["gradients"]
    asked = ("Cut", max(row["epoch"] for row in found), found[0]["kinds"])
    shown = [row for row in found if (row["of"], row["epoch"], row["kinds"]) == asked and row["extra"] in EXTRAS]
    names = ("mass_in_kind", "mass_other", "kept_in_kind", "kept_other", "of_in_kind", "of_other", "cosine")
    rows = [
        [row["plan"], EXTRAS[row["extra"]], *(f"{row[name]:.3f}" if name in row else "1" for name in names)]
        for row in sorted(shown, key=lambda row: (PLANS.index(row["plan"]), list(EXTRAS).index(row["extra"])))
    ]
    return table_of(heads, rows)


def best_plans_table(facts: Facts) -> str:
    """Effective sizes of plans and of the best, and training by them, from `best_plans.py --output`."""
    kinds = ["shuffled", "Cut", "swapped, margin", "swapped"]
    heads = ("", "shuffled", "`Cut`", "swapped, pairs within the margin left out", "swapped, or the best")
    small = {k: statistics.median(row["size"][k] for row in facts["small"]) for k in ("shuffled", "Cut", "best")}
    sizes = (f"{small['shuffled']:.1f}", f"{small['Cut']:.1f}", "–", f"{small['best']:.1f} (the best)")
    rows = [[f"{len(facts['small'])} sets of 16 neighbours, B = 4: median size", *sizes]]
    for row in facts["larger"]:
        head = f"N = {row['samples']:,}, B = {row['batch_size']}: size"
        rows.append([head, *(f"{row['size'][kind]:.0f}" for kind in kinds)])
    scores = {kind: [100 * run["top1"] for run in facts["runs"] if run["batches"] == kind] for kind in kinds}
    if facts["runs"]:
        head = f"top-1 after training on {facts['samples']:,}, seeds: {len(scores['swapped'])}"
        rows.append([head, *(f"{statistics.fmean(found):.1f} %" for found in scores.values())])
    return table_of(heads, rows)


def finetune_table(facts: Facts) -> str:
    """A pretrained model, fine-tuned in several ways, from `finetune.py --output`."""
    heads = ["data", "equal", "batches", "seeds", "top-1", "gain", "MRR@10", "gain", "NDCG@10", "gain", "times as long"]
    rows = []
    for row in facts["summary"]:
        scores = [_spread(row[name][of], row[name][by]) for name in _FIGURES for of, by in _OF_FIGURE]
        slower = "–" if row["slower"] is None else f"{row['slower']:.2f}"
        rows.append((row["data"], row["equal"], row["method"], row["seeds"], *scores, slower))
    return table_of(heads, rows)


_FIGURES = ("top1", "mrr10", "ndcg10")
_OF_FIGURE = (("mean", "spread"), ("gain", "error"))


def _spread(value: float | None, spread: float | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}" + ("" if spread is None else f" ± {100 * spread:.1f}")


def advice_table(facts: Facts, training: Facts, finetune: Facts) -> str:
    """What the advice rests on, beside the gain: of towers from `advice.py`, of others from their own benchmarks."""
    sizes = list(dict.fromkeys(row["batch_size"] for row in facts["summary"]))
    cells: dict[str, dict[int, str]] = {}
    for row in facts["summary"]:
        cells.setdefault(row["data"], {})[row["batch_size"]] = _advised(row["times_shuffled"], row["gain"])
    for row in finetune["summary"]:
        planned = [one for one in finetune["summary"] if _is_beside(one, row)]
        if "times_shuffled" in row and planned:
            gain = planned[0]["top1"]["gain"]
            cells[f"{row['data']}, MiniLM as it comes"] = {row["batch"]: _advised(row["times_shuffled"], gain)}
    images = headline.image_rows(training)["Cut"]
    hardness = statistics.fmean(run["hardness"] for run in training["runs"] if _is_run_of(run, images))
    cells["images, while they are trained on"] = {_IMAGES_AT_ONCE: _advised(hardness, images["gain"])}
    rows = ([label, *(by_size.get(size, "") for size in sizes)] for label, by_size in cells.items())
    return table_of(["data", *(f"B = {size}" for size in sizes)], rows)


_IMAGES_AT_ONCE = 32


def _advised(times_shuffled: float, gain: float) -> str:
    return f"{times_shuffled:.1f} times, {100 * gain:+.1f}"


def _is_run_of(run: Facts, summed: Facts) -> bool:
    return all(run[name] == summed[name] for name in ("data", "objective", "method"))


def _is_beside(row: Facts, other: Facts) -> bool:
    """Whether this is the planned fine-tuning on the same pairs."""
    settings = ("data", "pairs", "batch", "epochs", "rate")
    same = all(row[name] == other[name] for name in settings)
    return same and (row["method"], row["equal"]) == ("planned", "steps")


def waiting_table(facts: Facts) -> str:
    """The gain by how many epochs are shuffled first, from `advice.py --output`."""
    counts = sorted({row["shuffled_epochs"] for row in facts["waiting"]})
    rows = []
    for data in dict.fromkeys(row["data"] for row in facts["waiting"]):
        gains = {row["shuffled_epochs"]: row for row in facts["waiting"] if row["data"] == data}
        rows.append([data, *(f"{100 * gains[k]['gain']:+.1f} ± {100 * (gains[k]['error'] or 0):.1f}" for k in counts)])
    return table_of(["data", *(f"{count} shuffled" for count in counts)], rows)


def _mean(shares: Iterable[float]) -> float:
    return 100 * statistics.fmean(shares)


def _size(row: Facts | None) -> str:
    if row is None:
        return "–"
    return f"{row['size']:.0f}" + (f" ({row['low']:.0f} to {row['high']:.0f})" if "low" in row else "")


def _percent(row: Facts, name: str) -> str:
    return "–" if row[name] is None else f"{row[name]:.1%}"


_SIZES, _TRAINING, _FINETUNE = "batch_sizes_results.json", "training_results.json", "finetune_results.json"
_RIVALS, _SELECTION, _OVERHEAD = "rivals_training_results.json", "selection_results.json", "overhead_results.json"
_CHOICES, _ADVICE, _SCALE = "choices_results.json", "advice_results.json", "scale_results.json"
_EFFECTIVE = "effective_size_results.json"

SOURCES = {
    "figures": Source((_TRAINING, _SIZES, _OVERHEAD, _FINETUNE, _RIVALS), headline.front_figures),
    "readme-figures": Source((_TRAINING, _FINETUNE, _RIVALS, _EFFECTIVE), headline.readme_figures),
    "beside": Source((_SIZES, _RIVALS), headline.beside_table),
    "costs": Source((_RIVALS, _OVERHEAD, _FINETUNE, _TRAINING), headline.costs),
    "headline": Source((_SIZES, _TRAINING, _FINETUNE), headline.headline_table),
    "rivals-digest": Source((_RIVALS,), headline.rivals_digest),
    "choices": Source((_CHOICES,), choices_report.choices_table),
    "example-batches": Source(("example_batches_results.json",), example_batches.table),
    "selection": Source((_SELECTION,), selection_report.table),
    "selection-summary": Source((_SELECTION,), selection_report.summary_table),
    "selection-bars": Source((_SELECTION,), selection_report.bars_table),
    "training": Source((_TRAINING,), training_table),
    "training-bars": Source((_TRAINING, _RIVALS, _OVERHEAD), training_report.training_bars),
    "images-epochs": Source((_TRAINING,), images_report.epochs_table),
    "images-methods": Source((_TRAINING,), images_report.methods_table),
    "images-variants": Source(("images_results.json",), images_report.variants_table),
    "batch-sizes": Source((_SIZES,), training_report.batch_sizes_table),
    "rivals-training": Source((_RIVALS,), training_report.rivals_table),
    "finetune": Source((_FINETUNE,), finetune_table),
    "advice": Source((_ADVICE, _TRAINING, _FINETUNE), advice_table),
    "waiting": Source((_ADVICE,), waiting_table),
    "overhead": Source((_OVERHEAD,), overhead_table),
    "plan-ahead": Source((_OVERHEAD,), plan_ahead_table),
    "scale": Source((_SCALE,), scale_report.measured_table),
    "scale-on-paper": Source((_SCALE,), scale_report.paper_table),
    "few-centers": Source(("few_centers_results.json",), scale_report.few_centers_table),
    "effective-size": Source((_EFFECTIVE,), effective_size_table),
    "background-runs": Source(("background_results.json",), background_runs_table),
    "background-gradients": Source(("background_results.json",), background_gradients_table),
    "best-plans": Source(("best_plans_results.json",), best_plans_table),
    "batch-norm": Source(("batch_norm_results.json",), batch_norm_table),
}


def table(name: str, results: Path) -> str:
    """The table of that name, from files in the folder `results`."""
    if name not in SOURCES:
        raise ValueError(f"a table must be one of {', '.join(SOURCES)}; got {name}")
    found = [_facts(results / file) for file in SOURCES[name].files]
    return ABSENT if None in found else SOURCES[name].table(*found)


def _facts(path: Path) -> Facts | None:
    """What a file holds; None where there is no file, or one that has nothing to show yet."""
    if not path.exists():
        return None
    facts: Facts = json.loads(path.read_text(encoding="utf-8"))
    return facts if facts.get("summary", True) else None


def rewritten(page: str, results: Path) -> str:
    """The text of a page with each of its tables made anew."""
    return PART.sub(lambda part: f"{part['begin']}\n{table(part['name'], results)}\n\n{part['end']}", page)


def pages(root: Path) -> list[Path]:
    """README and the pages of docs/ that have such a table."""
    found = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [path for path in found if PART.search(path.read_text(encoding="utf-8"))]


def main() -> None:
    """Rewrites the pages and draws the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-plot", action="store_true", help="leave the pictures in docs/img alone")
    options = parser.parse_args()
    for path in pages(ROOT):
        before = path.read_text(encoding="utf-8")
        after = rewritten(before, RESULTS)
        path.write_text(after, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'as it was' if after == before else 'written'}")
    if not options.no_plot:
        _draw(RESULTS, ROOT / "docs" / "img")


def _draw(results: Path, folder: Path) -> None:
    files = (_SELECTION, _SIZES, _CHOICES, _TRAINING)
    selection, sizes, choices, training = (_facts(results / file) for file in files)
    pictures.draw_concepts(folder)
    pictures.draw_batches(folder)
    if selection is not None:
        selection_report.plot(selection, folder / "selection.svg")
        pictures.draw_cost(selection, folder)
    if sizes is not None:
        training_report.plot_batch_sizes(sizes, *pictures.both(folder, "batch-sizes"))
    if choices is not None:
        choices_report.plot_choices(choices, folder)
    if training is not None:
        training_report.plot_curves(training, *pictures.both(folder, "curves"))
        images_report.plot_epochs(training, *pictures.both(folder, "images"))


if __name__ == "__main__":
    main()
