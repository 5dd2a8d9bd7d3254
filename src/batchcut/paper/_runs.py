"""Training at a scale for two cores: which runs there are, and where their encoders are found again."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from batchcut._errors import invalid
from batchcut._files import read_json
from batchcut._progress import Progress, part_of
from batchcut.selection import Cut, Ordered, Shuffle, Spectral
from batchcut.theory import one_thread

from ._item import Settings

if TYPE_CHECKING:
    from batchcut.data import Images
    from batchcut.training import Config

Objective = Literal["simclr", "sogclr"]
OBJECTIVES: tuple[Objective, ...] = ("simclr", "sogclr")
OBJECTIVE_NAMES = {"simclr": "SimCLR", "sogclr": "SogCLR"}
METHODS = ("SGD", "OSGD", "SC", "Cut")
TEMPERATURE = 0.1
BATCH_SIZE = 32
_REVISION = 3  # raised when the same settings give other runs than before


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the runs on one set of images are.

    Attributes:
        data: the set's name.
        title: what the page calls it.
        root: the folder that holds the set's folder; None for images that come along.
        train: how many images are learnt from.
        test: how many are looked up.
        epochs: how many passes.
        width: of the small ResNet.
        smallest_crop: the least share of an image that a view keeps.
        seeds: how many runs of each kind.
    """

    data: str
    title: str
    root: Path | None
    train: int
    test: int
    epochs: int
    width: int
    smallest_crop: float
    seeds: int

    def as_data(self) -> dict[str, Any]:
        """What the page says of it; where the files are is nobody's business."""
        return {name: value for name, value in vars(self).items() if name != "root"}


def sizes(settings: Settings) -> list[Size]:
    """The sets to train on: the digits that come along and, where their folder is given, the CIFAR-100 images."""
    quick = settings.quick
    digits = Size(
        data="digits",
        title="digits",
        root=None,
        train=256 if quick else 1408,
        test=120 if quick else 360,
        epochs=2 if quick else 12,
        width=8 if quick else 16,
        smallest_crop=0.4,  # of 8 × 8 pixels; less leaves too little to know an image by
        seeds=2 if quick else 3,
    )
    if settings.cifar is None:
        return [digits]
    if not (settings.cifar / "train").is_file():
        raise invalid("cifar", "be the folder cifar-100-python, which holds the file train", settings.cifar)
    cifar = Size(
        data="cifar100",
        title="CIFAR-100",
        root=settings.cifar.resolve().parent,
        train=256 if quick else 6400,
        test=120 if quick else 1000,
        epochs=2 if quick else 6,
        width=8 if quick else 16,
        smallest_crop=0.08,
        seeds=2 if quick else 3,
    )
    return [cifar, digits]


def selector_of(method: str, batches: int) -> Shuffle | Ordered | Spectral | Cut:
    """How a method chooses the batches of an epoch; all of them take the same number of steps."""
    if method == "SGD":
        return Shuffle(temperature=TEMPERATURE)
    if method == "OSGD":
        return Ordered(k=10, q=1, replacement=True, steps=batches, temperature=TEMPERATURE)
    if method == "SC":
        return Spectral(variant="authors", pool=40, temperature=TEMPERATURE)
    return Cut(temperature=TEMPERATURE)


def config_of(size: Size, method: str, objective: Objective, seed: int) -> "Config":
    """All settings of a run."""
    from batchcut import training

    return training.Config(
        seed=seed,
        epochs=size.epochs,
        batch_size=BATCH_SIZE,
        data=training.DataSettings(
            name=size.data, root=None if size.root is None else str(size.root), train=size.train, test=size.test
        ),
        views=training.ViewSettings(smallest_crop=size.smallest_crop),
        model=training.ModelSettings(encoder="small-resnet", width=size.width),
        objective=training.ObjectiveSettings(loss=objective, temperature=TEMPERATURE),
        selection=training.SelectionSettings(
            selector=selector_of(method, size.train // BATCH_SIZE),
            planned_from="training-pass",
            average_views=False,
        ),
        optimizer=training.OptimizerSettings(name="adamw", learning_rate=2e-3, weight_decay=1e-4),
        evaluation=training.EvaluationSettings(every_epochs=0, draws=2, statistics=0),
        keeping=training.KeepingSettings(checkpoints=size.epochs, embeddings=0),
    )


@contextmanager
def workplace(settings: Settings) -> Iterator[Path]:
    """The folder for runs, which several items share; a passing one where none is given."""
    if settings.work is not None:
        settings.work.mkdir(parents=True, exist_ok=True)
        yield settings.work
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def trained(config: "Config", work: Path, progress: Progress) -> Path:
    """The folder of the run with these settings: finished before, gone on with, or begun now."""
    from batchcut import __version__
    from batchcut.training import resume, to_toml, train

    def observe(event: Mapping[str, Any]) -> None:
        if event.get("event") == "progress":
            progress(event["step"] / event["steps"])

    digest = hashlib.sha256(f"{__version__} {_REVISION}\n{to_toml(config)}".encode()).hexdigest()[:16]
    folder = work / digest
    if not (folder / "result.json").is_file():
        with one_thread() if config.data.name == "digits" else nullcontext():
            if (folder / "config.toml").is_file():
                resume(folder, observe=observe)
            else:
                train(config, folder, observe=observe)
    progress(1.0)
    return folder


def scores_of(folder: Path) -> dict[str, float]:
    """The retrieval scores of a finished run, on the clean images."""
    scores: dict[str, float] = read_json(folder / "result.json", dict)["scores"]
    return scores


def images_of(config: "Config", part: str, most: int | None) -> "Images":
    """The first images of a part, "train" or "test", of the set that a run used."""
    from batchcut.data import Images, load

    root = None if config.data.root is None else Path(config.data.root)
    images = getattr(load(config.data.name, root=root), part)
    if not isinstance(images, Images):
        raise TypeError(f"data.name must name a set of images; got {config.data.name}")
    return Images(images.name, images.pixels[:most], None)


def every_run(
    size: Size,
    settings: Settings,
    work: Path,
    score: Callable[[Path, "Config"], float],
    progress: Progress,
    methods: Sequence[str] = METHODS,
) -> dict[str, dict[str, list[float]]]:
    """A score of every run on a set: for each objective and method, one number for each seed."""
    total, done = len(OBJECTIVES) * len(methods) * size.seeds, 0
    scores: dict[str, dict[str, list[float]]] = {}
    for objective in OBJECTIVES:
        scores[objective] = {method: [] for method in methods}
        for method in methods:
            for offset in range(size.seeds):
                config = config_of(size, method, objective, settings.seed + offset)
                folder = trained(config, work, part_of(progress, done / total, (done + 1) / total))
                scores[objective][method].append(round(score(folder, config), 6))
                done += 1
    return scores
