"""The full-scale commands for a machine with a GPU, and proof that each of them starts."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchcut._progress import Progress
from batchcut.paper._item import Settings, Table
from batchcut.paper._runs import sizes
from batchcut.selection import Ordered, Spectral

if TYPE_CHECKING:
    from batchcut.training import Config

STEPS = 2
BATCH_SIZE, BATCH_SIZE_QUICK = 32, 4
SIDE_QUICK = 32


def recipes() -> list[str]:
    """The recipes of the paper's cells, and those of Cut at the same scale."""
    from batchcut.training import recipe_names

    return [name for name in recipe_names() if name.startswith("paper-") or name.endswith("-cut")]


def command(name: str, *, corrupted: bool = False) -> str:
    """What to type for a recipe."""
    if corrupted:
        published = "tiny-imagenet-c" if "tiny" in name else "cifar100-c"
        return f"batchcut evaluate runs/{name} --corrupted {published} --device cuda --download"
    return f"batchcut train --recipe {name} --out runs/{name} data.download=true"


def full_scale_commands() -> Table:
    """What scores the run of each recipe on a corrupted set."""
    rows = tuple((name, command(name, corrupted=True)) for name in recipes())
    return Table(heading="The full scale, on a GPU", columns=("recipe", "command"), rows=rows)


def starts(settings: Settings, progress: Progress) -> list[dict[str, Any]]:
    """Runs each recipe for a few steps on a few of the images at hand, with everything else as it is."""
    found = []
    names = recipes()
    for done, name in enumerate(names):
        found.append(_start(name, settings))
        progress((done + 1) / len(names))
    return found


def _start(name: str, settings: Settings) -> dict[str, Any]:
    from batchcut.training import config_of, recipe, train

    started = time.perf_counter()
    config = shortened(config_of(recipe(name), source=f"recipe {name}"), settings)
    losses: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            config,
            Path(folder) / "run",
            observe=lambda event: losses.append(event["loss"]) if event.get("event") == "step" else None,
        )
    return {
        "recipe": name,
        "command": command(name),
        "steps": result.steps,
        "losses": losses,
        "batch_size": config.batch_size,
        "side": config.views.size,
        "seconds": round(time.perf_counter() - started, 1),
    }


def shortened(config: "Config", settings: Settings) -> "Config":
    """A recipe for a few steps: few images, one epoch, one processor; in a quick run also small views and batches."""
    size = sizes(settings)[0]
    batch_size = BATCH_SIZE_QUICK if settings.quick else BATCH_SIZE
    views = replace(config.views, size=SIDE_QUICK) if settings.quick else config.views
    selector = config.selection.selector
    if isinstance(selector, Ordered):
        selector = replace(selector, k=STEPS, q=STEPS)  # few images have few batches to choose from
    if isinstance(selector, Spectral):
        selector = replace(selector, pool=None)
    return replace(
        config,
        epochs=1,
        batch_size=batch_size,
        data=replace(
            config.data,
            name=size.data,
            root=None if size.root is None else str(size.root),
            train=STEPS * batch_size,
            test=8,
        ),
        views=views,
        selection=replace(config.selection, selector=selector, shuffled_epochs=0),
        optimizer=replace(config.optimizer, learning_rate=config.peak_rate),
        evaluation=replace(config.evaluation, draws=1, batch_size=8),
        keeping=replace(config.keeping, log_every=1, embeddings=0),
        machine=replace(config.machine, accelerator="cpu", devices=1, nodes=1, precision="32-true"),
    )


def starting_table(begun: list[dict[str, Any]]) -> Table:
    """The commands, and what came of their first steps here."""
    rows = tuple(
        (
            start["command"],
            f"{start['steps']} steps with B = {start['batch_size']}, views of {start['side'] or 'the images’ size'}",
            ", ".join(f"{loss:.3f}" for loss in start["losses"]),
        )
        for start in begun
    )
    heading = "The full scale, on a GPU: each command was started here on a few images"
    return Table(heading=heading, columns=("command", "ran here", "loss of each step"), rows=rows)
