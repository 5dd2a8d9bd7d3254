"""The short answers of the documents: figures of the first page, the headline table, and a digest of the rivals."""

from typing import Any

Facts = dict[str, Any]

_TASKS = {
    "functions": "functions by what they do",
    "pairs": "packages by their short description",
    "debian": "packages by their short description",
}
_SMALL = 16
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
    lines = ["| task | model | seeds | shuffled | planned | gain |", "|---|---|---|---|---|---|"]
    towers = "two small towers"
    for data in ("functions", "pairs"):
        shuffled, planned = (_of_size(sizes, data, 32, method) for method in ("shuffle", "cut"))
        lines.append(_row(f"{_TASKS[data]}, B = 32", towers, planned["seeds"], shuffled["top1"], planned["top1"]))
    for data in ("functions", "debian"):
        rows = {row["method"]: row for row in finetune["summary"] if row["data"] == data}
        scores = (rows[method]["top1"]["mean"] for method in ("shuffled", "planned"))
        lines.append(_row(f"{_TASKS[data]}, B = 16", "MiniLM, pretrained", rows["planned"]["seeds"], *scores))
    images = _images(training)
    scores = (images[method]["top1"] for method in ("Shuffle", "Cut"))
    lines.append(_row("the other view of an image, B = 32", "small ResNet, SimCLR", images["Cut"]["seeds"], *scores))
    for data in ("functions", "pairs"):
        best, small = _best_shuffled(sizes, data), _of_size(sizes, data, _SMALL, "cut")
        task = f"{_TASKS[data]}: planned B = {_SMALL} beside shuffled B = {best['batch_size']}"
        lines.append(_row(task, towers, small["seeds"], best["top1"], small["top1"]))
    return "\n".join(lines)


def front_figures(sizes: Facts, overhead: Facts, training: Facts) -> str:
    """Three figures for the first page."""
    shuffled, planned = (_of_size(sizes, "functions", 32, method)["top1"] for method in ("shuffle", "cut"))
    best, small = _best_shuffled(sizes, "functions"), _of_size(sizes, "functions", _SMALL, "cut")
    gain = f"**{100 * (planned - shuffled):+.1f} points** of top-1 retrieval at B = 32"
    worth = f"{_percent(small['top1'])} at equal epochs; the best shuffled size, {best['batch_size']}"
    added = [row["added_time"] for row in training["summary"] if row["method"] == "Cut" and row["added_time"]]
    towers = f"{100 * min(added):.0f} to {100 * max(added):.0f} %"
    cost = f"**{_percent(overhead['added'])}** is added to an epoch of a small image model"
    lines = [
        f"- {gain}: {_percent(planned)} planned, {_percent(shuffled)} shuffled (*functions*, right).",
        f"- **Batches of {_SMALL}**, planned, reach {worth}, {_percent(best['top1'])}.",
        f"- {cost}, {towers} to the towers above.",
    ]
    return "\n".join(lines)


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


def _of_size(sizes: Facts, data: str, size: int, method: str) -> Facts:
    wanted = (data, size, method)
    rows: list[Facts] = sizes["summary"]
    return next(row for row in rows if (row["data"], row["batch_size"], row["method"]) == wanted)


def _best_shuffled(sizes: Facts, data: str) -> Facts:
    """The size at which shuffled batches do best."""
    rows: list[Facts] = [row for row in sizes["summary"] if (row["data"], row["method"]) == (data, "shuffle")]
    return max(rows, key=lambda row: float(row["top1"]))


def _images(training: Facts) -> dict[str, Facts]:
    """The rows of images by method, of the seeds by which no setting was chosen."""
    wanted = ("images, seeds from 5", "simclr")
    return {row["method"]: row for row in training["summary"] if (row["data"], row["objective"]) == wanted}


def _row(task: str, model: str, seeds: int, shuffled: float, planned: float) -> str:
    scores = f"{100 * shuffled:.1f} | {100 * planned:.1f} | {100 * (planned - shuffled):+.1f}"
    return f"| {task} | {model} | {seeds} | {scores} |"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
