"""`fig:loss_histogram`, `fig:loss_histogram_appendix`: the losses of the batches that SC, Cut and chance choose."""

from typing import TYPE_CHECKING, Any

import numpy as np

from batchcut._progress import Progress, part_of
from batchcut.paper._item import Data, Finding, Settings, Table, Verdict
from batchcut.paper._runs import TEMPERATURE, Size, config_of, images_of, sizes, trained, workplace
from batchcut.paper._style import BLUE, GREEN, PURPLE, VERMILION, ink
from batchcut.selection import Cut, Selector, Shuffle, Spectral

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH_SIZE = 20
AT_ONCE = 250  # images that are embedded; their views depend on it
RANDOM, SC, SC_AUTHORS, CUT = "random", "SC, text", "SC, authors' code", "Cut"
LOOK = {RANDOM: (BLUE, True), SC: (GREEN, False), SC_AUTHORS: (PURPLE, False), CUT: (VERMILION, False)}
IMAGES, IMAGES_QUICK = 3200, 200
MODELS = ("SGD", "OSGD", "SC")


def selectors() -> dict[str, Selector]:
    """What chooses the batches whose losses are compared."""
    return {
        RANDOM: Shuffle(temperature=TEMPERATURE),
        SC: Spectral(variant="paper", pool=40, temperature=TEMPERATURE),
        SC_AUTHORS: Spectral(variant="authors", pool=40, temperature=TEMPERATURE),
        CUT: Cut(temperature=TEMPERATURE, margin=None),
    }


def run(models: tuple[str, ...], settings: Settings, progress: Progress) -> Data:
    """Batch losses of each selector, for each model after several epochs."""
    from batchcut.training import trained_model

    size = sizes(settings)[0]
    epochs = shown_epochs(size)
    rows: list[dict[str, Any]] = []
    with workplace(settings) as work:
        for place, method in enumerate(models):
            half = (place + 0.5) / len(models)
            config = config_of(size, method, "simclr", settings.seed)
            folder = trained(config, work, part_of(progress, place / len(models), half))
            images = images_of(config, "train", min(size.train, IMAGES_QUICK if settings.quick else IMAGES))
            panels = []
            for done, epoch in enumerate(epochs):
                step = epoch * (size.train // config.batch_size)
                u, v = trained_model(folder, step=step).embed(images.pixels, batch_size=AT_ONCE)
                panels.append({"epoch": epoch, "losses": batch_losses(u, v, settings.seed)})
                part_of(progress, half, (place + 1) / len(models))((done + 1) / len(epochs))
            rows.append({"model": method, "panels": panels})
    return {"size": size.as_data(), "images": len(images), "rows": rows}


def shown_epochs(size: Size) -> list[int]:
    """After the first epoch, about halfway, and after the last."""
    return sorted({1, (size.epochs + 1) // 2, size.epochs})


def batch_losses(u: object, v: object, seed: int) -> dict[str, list[float]]:
    """The paper's loss of each batch that each selector makes of the embeddings u, v: (N, d); plans have half of it."""
    return {
        name: np.round(2 * selector(u, v, batch_size=BATCH_SIZE, seed=seed).losses, 5).tolist()
        for name, selector in selectors().items()
    }


def judge(data: Data) -> Verdict:
    """Whether SC favours batches of large loss, for each model and after each epoch."""
    return Verdict(findings=tuple(_judge_row(row, name) for row in data["rows"] for name in (SC, SC_AUTHORS)))


def _judge_row(row: Data, name: str) -> Finding:
    higher, shares = [], []
    for panel in row["panels"]:
        random, chosen = (np.array(panel["losses"][which]) for which in (RANDOM, name))
        higher.append(bool(chosen.mean() > random.mean()))
        shares.append(float((chosen > np.quantile(random, 0.9)).mean()))
    epochs = ", ".join(
        f"{share:.0%} after epoch {panel['epoch']}" for share, panel in zip(shares, row["panels"], strict=True)
    )
    return Finding(
        paper=f"model trained by {row['model']}: SC has more batches of large loss than chance",
        here=f"{name}: of its batches, so many are above nine tenths of the random ones: {epochs}",
        agrees=all(higher) and all(share > 0.1 for share in shares),
        why="after some epochs its batches are no harder than random ones",
    )


def draw(data: Data) -> "Figure":
    """One row for each model, one panel for each epoch, all with the same bins."""
    from matplotlib.figure import Figure

    rows = data["rows"]
    columns = len(rows[0]["panels"])
    figure = Figure(figsize=(3.3 * columns, 0.7 + 2.2 * len(rows)))
    axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True)
    highest = max(max(losses) for row in rows for panel in row["panels"] for losses in panel["losses"].values())
    lowest = min(min(losses) for row in rows for panel in row["panels"] for losses in panel["losses"].values())
    batches = len(rows[0]["panels"][0]["losses"][RANDOM])
    bins = np.linspace(lowest, highest, min(41, 11 + batches // 4))
    for place, row in enumerate(rows):
        for column, panel in enumerate(row["panels"]):
            here = axes[place, column]
            for name, losses in panel["losses"].items():
                color, filled = LOOK[name]
                options = {"alpha": 0.35} if filled else {"histtype": "step", "linewidth": 1.6}
                here.hist(losses, bins=bins, color=color, label=name, **options)
            here.set_title(f"trained by {row['model']}, epoch {panel['epoch']}", color=ink())
        axes[place, 0].set_ylabel("batches")
    for here in axes[-1]:
        here.set_xlabel(f"loss of a batch of {BATCH_SIZE}")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LOOK))
    return figure


def describe(data: Data) -> str:
    """The picture in words."""
    parts = []
    for row in data["rows"]:
        for panel in row["panels"]:
            means = ", ".join(f"{name} {np.mean(losses):.2f}" for name, losses in panel["losses"].items())
            parts.append(f"trained by {row['model']}, epoch {panel['epoch']}: {means}")
    return "Histograms of batch losses. Mean losses: " + "; ".join(parts) + "."


def caption(data: Data) -> str:
    """How the data were made."""
    size = data["size"]
    return (
        f"CPU scale: {data['images']:,} of the {size['train']:,} training images of {size['title']}, batches of "
        f"{BATCH_SIZE}, τ = {TEMPERATURE:g}; small ResNet of width {size['width']} trained with SimCLR; the paper has "
        "a ResNet-18 and 50,000 images. Both SC variants work in random pools of 40 batches: “text” clusters w with "
        "L = D − A and normalised rows, “authors' code” exp(w) with the normalised Laplacian. Cut searches the whole "
        "set. "
        "The models trained by SC used the authors' code."
    )


def tables(data: Data) -> tuple[Table, ...]:
    """Mean losses."""
    rows = tuple(
        (
            row["model"],
            str(panel["epoch"]),
            *(f"{np.mean(panel['losses'][name]):.3f} ± {np.std(panel['losses'][name]):.3f}" for name in LOOK),
        )
        for row in data["rows"]
        for panel in row["panels"]
    )
    heading = "Mean and standard deviation of the batch losses"
    return (Table(heading=heading, columns=("trained by", "epoch", *LOOK), rows=rows),)
