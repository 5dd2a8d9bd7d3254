"""The short answers of the documents: figures of the first page, the headline table, and a digest of the rivals."""

from textwrap import fill
from typing import Any

from benchmarks.pages.markdown import table_of

Facts = dict[str, Any]

_TASKS = {
    "functions": "functions by what they do",
    "pairs": "packages by their short description",
    "debian": "packages by their short description",
}
_SMALL = 16
_WIDTH = 100
_TOWERS = ("pairs", "functions")
_DIGEST = {
    "as many seconds: shuffled, eleven epochs instead of six": "shuffled, 11 epochs",
    "a memory of old embeddings (XBM), the best size": "shuffled, memory",
    "a moving average (SogCLR), the better γ": "SogCLR",
    "one mined negative for each anchor": "one mined negative",
    "groups of hard samples (B3), the better size": "groups of",
    "`Cut`, no background": "`Cut`, no background",
    "**batchcut as it comes**": "default",
    "`Cut` and one mined negative": "`Cut` and one mined negative",
}


def headline_table(sizes: Facts, training: Facts, finetune: Facts) -> str:
    """What planned batches gain, a row for each task, and what a small batch is worth."""
    rows = []
    towers = "two small towers"
    for data in ("functions", "pairs"):
        shuffled, planned = _of_recipe(training, data)
        rows.append(_row(f"{_TASKS[data]}, B = 32", towers, planned["seeds"], shuffled["top1"], planned["top1"]))
    for data in ("functions", "debian"):
        shuffled, planned = (_tuned(finetune, data, method) for method in ("shuffled", "planned"))
        scores = (shuffled["top1"]["mean"], planned["top1"]["mean"])
        rows.append(_row(f"{_TASKS[data]}, B = 16", "MiniLM, pretrained", planned["seeds"], *scores))
    images = image_rows(training)
    scores = (images["Shuffle"]["top1"], images["Cut"]["top1"])
    rows.append(_row("the other view of an image, B = 32", "small ResNet, SimCLR", images["Cut"]["seeds"], *scores))
    for data in ("functions", "pairs"):
        best, small = _best_shuffled(sizes, data), _of_size(sizes, data, _SMALL, "cut")
        task = f"{_TASKS[data]}: planned B = {_SMALL} beside shuffled B = {best['batch_size']}"
        rows.append(_row(task, towers, small["seeds"], best["top1"], small["top1"]))
    return table_of(("task", "model", "seeds", "shuffled", "planned", "gain"), rows)


def front_figures(training: Facts, sizes: Facts, overhead: Facts, finetune: Facts, rivals: Facts) -> str:
    """Three figures for the first page."""
    shuffled, planned = (row["top1"] for row in _of_recipe(training, "functions"))
    best, small = _best_shuffled(sizes, "functions"), _of_size(sizes, "functions", _SMALL, "cut")
    gain = f"**{100 * (planned - shuffled):+.1f} points** of top-1 retrieval at B = 32"
    worth = f"{_percent(small['top1'])} at equal epochs; shuffled ones of the best size, {best['batch_size']}"
    image = f"{_percent(overhead['added'])} is added to an epoch of a small image model"
    return _bullets(
        f"{gain}: {_percent(planned)} planned, {_percent(shuffled)} shuffled (*functions*).",
        f"**Batches of {_SMALL}**, planned, reach {worth}, reach {_percent(best['top1'])}.",
        f"MiniLM takes **{_longer(finetune)}** as long to fine-tune; {image}. "
        f"The towers above, at B = 32, take {_towers(rivals)}.",
    )


def readme_figures(training: Facts, finetune: Facts, rivals: Facts, effective: Facts) -> str:
    """Those of the README, the first two of the run that its picture shows, each with the command that prints it."""
    shuffled, planned = _of_recipe(training, "functions")
    scores = f"{_percent(shuffled['top1'])} shuffled, {_percent(planned['top1'])} planned"
    task = f"two small towers, Python functions by what they do, B = 32, {planned['seeds']} seeds"
    tuned, saved = _tuned(finetune, "functions", "planned")["slower"], 100 - 100 * planned["share_of_steps"]
    time = f"MiniLM takes {tuned:.2f} times as long to fine-tune; the small towers, at B = 32, take {_towers(rivals)}"
    first = "python benchmarks/training.py --functions --first-seed 30 --seeds 5 --methods Shuffle Cut"
    second = "python benchmarks/finetune.py --sets functions --pairs 4800 --methods shuffled planned --time"
    third = "python benchmarks/effective_size.py PAIRS"
    towers = "python benchmarks/rivals_training.py --pairs PAIRS --functions --time --seeds 3"
    rows = (
        ("**points gained**", f"{100 * planned['gain']:+.1f} of top-1: {scores} ({task})", f"`{first}`"),
        ("**steps saved**", f"{saved:.0f} % until the shuffled result is reached", "the same"),
        ("**[effective batch size](docs/effective-size.md)**", _worth(effective), f"`{third}`"),
        ("**time added**", time, f"`{second}`, `{towers}`"),
    )
    return table_of(("", "", "printed by"), rows)


def beside_table(sizes: Facts, rivals: Facts) -> str:
    """What people use instead: what it gives, what it costs, and whether it goes together with planned batches."""
    best = _both([_best_shuffled(sizes, data)["top1"] for data in _TOWERS])
    small = _both([_of_size(sizes, data, _SMALL, "cut")["top1"] for data in _TOWERS])
    found = {(row["data"], row["rival"]): row for row in rivals["summary"]}
    mined, ours = ([found[data, name] for data in _TOWERS] for name in ("one mined negative", "default"))
    memory = [row for row in rivals["summary"] if "memory" in row["rival"] or "SogCLR" in row["rival"]]
    mining, remembering = (
        [row["seconds"] / found[row["data"], "shuffled"]["seconds"] for row in rows] for rows in (mined, memory)
    )
    least, most = (100 * pick(row["gain"] for row in memory) for pick in (min, max))
    gains = [_both([row["gain"] for row in rows], "+") for rows in (mined, ours)]
    rows = (
        (
            "larger batches, cached losses",
            f"shuffled ones of the best size reach {best} %; planned ones of {_SMALL}, {small} %",
            "memory, or a second forward pass",
            "yes; the larger the batch, the less to gain",
        ),
        (
            "`mine_hard_negatives`",
            f"{gains[0]} points; planning {gains[1]}",
            f"{_span(mining, 0)} times the seconds",
            "yes; little is added on towers, more to MiniLM",
        ),
        (
            "`no_duplicates` sampler",
            "no false negatives from equal texts",
            "little",
            "built in: equal texts are kept apart",
        ),
        (
            "memory of old embeddings (XBM), SogCLR",
            f"{least:+.0f} to {most:+.0f} points",
            f"{_span(remembering, 1)} times the seconds",
            "not needed: planned batches have their own [background](docs/background.md)",
        ),
        (
            "samplers of pytorch-metric-learning",
            "batches by class",
            "labels",
            "for other tasks: here each sample is its own class",
        ),
    )
    return table_of(("", "gives", "costs", "together with planned batches"), rows)


def _both(shares: list[float], sign: str = "") -> str:
    """In per cent, of pairs and functions."""
    return " and ".join(f"{100 * share:{sign}.1f}" for share in shares)


def costs(rivals: Facts, overhead: Facts, finetune: Facts, training: Facts) -> str:
    """How much longer training takes, in sentences."""
    planned = [_of_recipe(training, data)[1] for data in _TOWERS]
    added = _span([100 * row["added_time"] for row in planned], 0)
    slower = _span([1 + row["slower"] for row in planned], 1)
    return _bullets(
        f"**MiniLM**, fine-tuned, takes {_longer(finetune)} as long as with shuffled batches.",
        f"**A small ResNet** on images: {_percent(overhead['added'])} of an epoch, by the table below.",
        f"**Two small towers** at B = 32 take {_towers(rivals)}; with `batchcut train`, whose steps take longer, "
        f"{slower} times. There recording, planning and sampling add {added} %; most of the rest is the loss with "
        "its background.",
    )


def _bullets(*sentences: str) -> str:
    """A list in lines that fit an editor."""
    return "\n".join(fill(f"- {sentence}", _WIDTH, subsequent_indent="  ") for sentence in sentences)


def _worth(effective: Facts) -> str:
    """What planned batches keep of the full-batch gradient, late in training, in words."""
    found = [row for row in effective["rows"] if (row["batches"], row["by"]) == ("Cut", "effective_batch_size")]
    row = max(found, key=lambda row: row["epochs"])
    size = f"{row['size']:.0f} ({row['low']:.0f} to {row['high']:.0f})"
    planned = f"planned batches of {effective['batch_size']} keep as much of the full-batch gradient"
    return f"{planned} as random ones of {size}: {_TASKS['pairs']}, after {row['epochs']} epochs"


def _longer(finetune: Facts) -> str:
    """How many times as long a planned fine-tuning takes, over the data sets."""
    times = [_tuned(finetune, data, "planned")["slower"] for data in ("functions", "debian")]
    return f"{_span(times, 2)} times"


def _towers(rivals: Facts) -> str:
    """How many times as long a plain loop with towers takes by planned batches, and how long its step is."""
    seconds = {(row["data"], row["rival"]): row["seconds"] for row in rivals["summary"]}
    steps = {run["data"]: run["steps"] for run in rivals["runs"] if run["rival"] == "shuffled"}
    times = [seconds[data, "default"] / seconds[data, "shuffled"] for data in _TOWERS]
    step = max(1000 * seconds[data, "shuffled"] / steps[data] for data in _TOWERS)
    return f"{_span(times, 1)} times as long, with steps of {step:.0f} ms"


def _span(values: list[float], digits: int) -> str:
    """From the least to the most, or one of them where they are written alike."""
    return " to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values))))


def _tuned(finetune: Facts, data: str, method: str) -> Facts:
    wanted = (data, "steps", method)
    rows: list[Facts] = finetune["summary"]
    return next(row for row in rows if (row["data"], row["equal"], row["method"]) == wanted)


def rivals_digest(facts: Facts) -> str:
    """The best gain of each kind of rival, a column for each data set."""
    sets = list(dict.fromkeys(row["data"] for row in facts["summary"]))
    rows = []
    for name, start in _DIGEST.items():
        found = [
            max(row["gain"] for row in facts["summary"] if row["data"] == data and row["rival"].startswith(start))
            for data in sets
        ]
        rows.append([name, *(f"{100 * gain:+.1f}" for gain in found)])
    return table_of(["batches of 32 and", *sets], rows)


def _of_recipe(training: Facts, data: str) -> tuple[Facts, Facts]:
    """Shuffled and planned batches of 32, by the recipe as it comes and seeds by which nothing was chosen."""
    rows = {row["method"]: row for row in training["summary"] if row["data"] == f"{data}, seeds from 30"}
    return rows["Shuffle"], rows["Cut"]


def _of_size(sizes: Facts, data: str, size: int, method: str) -> Facts:
    wanted = (data, size, method)
    rows: list[Facts] = sizes["summary"]
    return next(row for row in rows if (row["data"], row["batch_size"], row["method"]) == wanted)


def _best_shuffled(sizes: Facts, data: str) -> Facts:
    """The size at which shuffled batches do best."""
    rows: list[Facts] = [row for row in sizes["summary"] if (row["data"], row["method"]) == (data, "shuffle")]
    return max(rows, key=lambda row: float(row["top1"]))


def image_rows(training: Facts) -> dict[str, Facts]:
    """The rows of images by method, of the seeds by which no setting was chosen."""
    wanted = ("images, seeds from 40", "simclr")
    return {row["method"]: row for row in training["summary"] if (row["data"], row["objective"]) == wanted}


def _row(task: str, model: str, seeds: int, shuffled: float, planned: float) -> tuple[object, ...]:
    return task, model, seeds, f"{100 * shuffled:.1f}", f"{100 * planned:.1f}", f"{100 * (planned - shuffled):+.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
