"""The short answers of the documents: figures of the first page, the headline table, and a digest of the rivals."""

from typing import Any

Facts = dict[str, Any]

_TASKS = {
    "functions": "functions by what they do",
    "pairs": "packages by their short description",
    "debian": "packages by their short description",
}
_SMALL, _LARGE = 16, 512
_DIGEST = {
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
    lines = ["| task | model | shuffled | planned | gain |", "|---|---|---|---|---|"]
    for data in ("functions", "pairs"):
        shuffled, planned = (_of_size(sizes, data, 32, method) for method in ("shuffle", "cut"))
        lines.append(_row(f"{_TASKS[data]}, B = 32", "two small towers", shuffled, planned))
    for data in ("functions", "debian"):
        rows = {row["method"]: row["top1"]["mean"] for row in finetune["summary"] if row["data"] == data}
        lines.append(_row(f"{_TASKS[data]}, B = 16", "MiniLM, pretrained", rows["shuffled"], rows["planned"]))
    images = _images(training)
    lines.append(_row("the other view of an image, B = 32", "small ResNet, SimCLR", images["Shuffle"], images["Cut"]))
    for data in ("functions", "pairs"):
        shuffled, planned = _of_size(sizes, data, _LARGE, "shuffle"), _of_size(sizes, data, _SMALL, "cut")
        task = f"{_TASKS[data]}: planned B = {_SMALL} beside shuffled B = {_LARGE}"
        lines.append(_row(task, "two small towers", shuffled, planned))
    return "\n".join(lines)


def front_figures(sizes: Facts, overhead: Facts) -> str:
    """Three figures for the first page."""
    shuffled, planned = (_of_size(sizes, "functions", 32, method) for method in ("shuffle", "cut"))
    large, small = _of_size(sizes, "functions", _LARGE, "shuffle"), _of_size(sizes, "functions", _SMALL, "cut")
    gain = f"**{100 * (planned - shuffled):+.1f} points** of top-1 retrieval at B = 32"
    return "\n".join(
        [
            f"- {gain}: {_percent(planned)} planned, {_percent(shuffled)} shuffled (*functions*, right).",
            f"- **{_SMALL} for {_LARGE}**: planned batches of {_SMALL} find {_percent(small)}, "
            + f"shuffled ones of {_LARGE} {_percent(large)}.",
            f"- **{overhead['added']:.1%}** is added to an epoch of a very small image model; less to a larger one.",
        ]
    )


def rivals_digest(facts: Facts) -> str:
    """The best gain of each kind of rival, a column for each data set."""
    sets = list(dict.fromkeys(row["data"] for row in facts["summary"]))
    lines = [f"| batches of 32 and | {' | '.join(sets)} |", "|---" * (1 + len(sets)) + "|"]
    for name, start in _DIGEST.items():
        found = [
            max(row["gain"] for row in facts["summary"] if row["data"] == data and row["rival"].startswith(start))
            for data in sets
        ]
        lines.append(f"| {name} | {' | '.join(f'{100 * gain:+.1f}' for gain in found)} |")
    return "\n".join(lines)


def _of_size(sizes: Facts, data: str, size: int, method: str) -> float:
    wanted = (data, size, method)
    return next(
        float(row["top1"]) for row in sizes["summary"] if (row["data"], row["batch_size"], row["method"]) == wanted
    )


def _images(training: Facts) -> dict[str, float]:
    """Top-1 on images by method, of the seeds by which no setting was chosen."""
    wanted = ("images, seeds from 5", "simclr")
    return {row["method"]: row["top1"] for row in training["summary"] if (row["data"], row["objective"]) == wanted}


def _row(task: str, model: str, shuffled: float, planned: float) -> str:
    return f"| {task} | {model} | {100 * shuffled:.1f} | {100 * planned:.1f} | {100 * (planned - shuffled):+.1f} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
