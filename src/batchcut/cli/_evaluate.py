"""`batchcut evaluate`: how good the model of a run is."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cyclopts import Parameter
from rich.table import Table

from batchcut._errors import check_integer, invalid

from ._output import COLUMNS, as_json, cell, console
from ._verb import DONE, Integer, OptionalInteger, OptionalOutput, check_out

if TYPE_CHECKING:
    from rich.progress import Progress

    from batchcut.data import Images, Pairs, Split
    from batchcut.evaluation import Draws
    from batchcut.training import Config, TrainedModel


@dataclass(frozen=True)
class Evaluate:
    """Score the model of a run on the test part of its data.

    Retrieval of each sample's other view or side among all, both ways; for images also, where asked for, the paper's
    corrupted task (the other view of a corrupted image among those of all corruptions of the same image) and, where
    classes are known, nearest neighbours and a linear probe on the encoder's output.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut evaluate runs/first", "the last checkpoint of a run"),
        ("batchcut evaluate runs/first --corrupted made --test 1000", "with corruptions made on the spot"),
        ("batchcut evaluate runs/first --classes --json", "with classes, for scripts"),
    )

    run_folder: Annotated[Path, Parameter(name="RUN")]
    """The folder of the run."""

    _: KW_ONLY

    step: OptionalInteger = None
    """Which checkpoint; the last one that is whole if left out."""

    draws: Integer = 3
    """How often views of images are drawn; scores are means over them, with their spread."""

    corrupted: Literal["made", "cifar100-c", "tiny-imagenet-c"] | None = None
    """Also the corrupted task: over corruptions made on the spot, or over a published set."""

    severity: OptionalInteger = None
    """Of the corruptions, 1 to 5; 1 if left out."""

    classes: bool = False
    """Also nearest neighbours and a linear probe, where classes are known."""

    test: OptionalInteger = None
    """Use the first so many test samples; as many as the run did if left out."""

    root: Path | None = None
    """The folder with the data sets; that of the run if left out."""

    download: bool = False
    """Fetch what is missing from the official address."""

    batch_size: OptionalInteger = None
    """How many samples are embedded at once; as many as the run did if left out. Views depend on it."""

    device: str = "cpu"
    """Where the model works: cpu, cuda, cuda:1, mps."""

    out: OptionalOutput = None
    """Also write the scores there, as JSON."""

    json: bool = False
    """Print the scores as JSON."""

    quiet: bool = False
    """Print nothing but errors."""

    def run(self) -> int:
        """Scores the model and prints what came out."""
        from ._progress import share_progress

        for name, value in (("--draws", self.draws), ("--test", self.test), ("--batch-size", self.batch_size)):
            if value is not None:
                check_integer(name, value, at_least=2 if name == "--test" else 1)
        if self.severity is not None:
            check_integer("--severity", self.severity, at_least=1, at_most=5)
            if self.corrupted is None:
                raise invalid("--severity", "be left alone without --corrupted", self.severity)
        with share_progress(hidden=self.quiet) as progress:
            scores = self._scores(progress)
        text = as_json(scores)
        if self.out is not None:
            from batchcut._files import write_bytes

            write_bytes(self.out, text.encode(errors="backslashreplace"))
        if self.json and not self.quiet:
            print(text)
        elif not self.quiet:
            _print_scores(scores)
        return DONE

    def _scores(self, progress: "Progress") -> dict[str, Any]:
        from batchcut.data import Images
        from batchcut.evaluation import retrieval
        from batchcut.training import trained_model

        config, split = self._data(progress)
        model = trained_model(self.run_folder, split, step=self.step, device=self.device)
        scores: dict[str, Any] = {"run": str(self.run_folder), "step": model.step, "data": config.data.name}
        test = _first(split.test, self.test or config.data.test)
        scores["test"] = len(test)
        if not isinstance(test, Images):
            for name, wanted in (("--corrupted", self.corrupted), ("--classes", self.classes or None)):
                if wanted is not None:
                    raise invalid(name, "be left alone where the data are features", wanted)
            return scores | {"retrieval": retrieval(*model.pairs(test)).as_dict()}
        size = self.batch_size or config.evaluation.batch_size
        scores["retrieval"] = self._clean(test, model, size, progress).as_dict()
        if self.corrupted is not None:
            name, draws = self._corrupted(test, model, size, progress)
            scores["corrupted"] = {"set": name, "candidates": draws.results[0].count, **draws.as_dict()}
        if self.classes:
            train = _first(split.train, config.data.train)
            if not isinstance(train, Images) or train.labels is None or test.labels is None:
                raise invalid("--classes", "be left alone where no classes are known", config.data.name)
            scores["classes"] = _classes(train, test, model, size, progress)
        return scores

    def _data(self, progress: "Progress") -> "tuple[Config, Split]":
        from batchcut.data import load, places
        from batchcut.training import run_config

        if not (self.run_folder / "config.toml").is_file():
            raise invalid("RUN", "be the folder of a run, with its config.toml", self.run_folder)
        config = run_config(self.run_folder)
        placed = config.data.name in ("digits", "functions") or ":" in config.data.name
        if self.root is not None and placed and self.corrupted in (None, "made"):
            raise invalid("--root", f"be left alone where the data are {config.data.name}", self.root)
        root = self._root(config)
        check_out(self.out, *places(config.data.name, root=root))
        download = self.download or config.data.download
        return config, load(config.data.name, root=root, download=download, progress=_transfer(progress))

    def _root(self, config: "Config") -> Path | None:
        """The folder with the data sets: the one given, or that of the run."""
        return self.root or (None if config.data.root is None else Path(config.data.root))

    def _clean(self, test: "Images", model: "TrainedModel", size: int, progress: "Progress") -> "Draws":
        from batchcut.evaluation import view_retrieval

        report = _reporter(progress, f"retrieval among {len(test):,}")
        return view_retrieval(test.pixels, model.views, draws=self.draws, batch_size=size, progress=report)

    def _corrupted(self, test: "Images", model: "TrainedModel", size: int, progress: "Progress") -> "tuple[str, Draws]":
        from batchcut.data import CorruptedImages, load_corrupted
        from batchcut.evaluation import corrupted_retrieval, made_corruptions

        config = model.config
        if self.corrupted == "made":
            images = made_corruptions(test, severity=self.severity or 1, seed=config.seed)
        else:
            images = load_corrupted(
                str(self.corrupted),
                root=self._root(config),
                severity=self.severity or 1,
                download=self.download,
                progress=_transfer(progress),
            )
            count = min(len(images), self.test or config.data.test or len(images))
            images = CorruptedImages(images.name, images.corruptions, count, images.read)
        report = _reporter(progress, f"retrieval among {len(images.corruptions)} corruptions")
        return images.name, corrupted_retrieval(images, model.views, draws=self.draws, batch_size=size, progress=report)


def _first(part: "Images | Pairs", most: int | None) -> "Images | Pairs":
    from batchcut.data import Images, Pairs

    if isinstance(part, Pairs):
        return Pairs(part.name, part.u[:most], part.v[:most])
    return Images(part.name, part.pixels[:most], None if part.labels is None else part.labels[:most])


def _classes(
    train: "Images", test: "Images", model: "TrainedModel", size: int, progress: "Progress"
) -> dict[str, float | bool]:
    from batchcut.evaluation import knn_accuracy, linear_probe

    report = _reporter(progress, "classes")
    known, rows = (model.features(part.pixels, batch_size=size) for part in (train, test))
    report(0.5)
    knn = knn_accuracy(known, train.labels, rows, test.labels)
    probe = linear_probe(known, train.labels, rows, test.labels)
    report(1.0)
    return {"knn": knn, "linear_probe": probe.accuracy, "linear_probe_converged": probe.converged}


def _print_scores(scores: dict[str, Any]) -> None:
    title = f"{scores['run']}, step {scores['step']:,}: {scores['data']}, {scores['test']:,} test samples"
    table = Table(title=title, title_justify="left")
    table.add_column("task")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("retrieval", *_cells(scores["retrieval"]))
    if "corrupted" in scores:
        found = scores["corrupted"]
        table.add_row(f"among {found['candidates']} corruptions", *_cells(found))
    output = console()
    output.print(table)
    if "classes" in scores:
        found = scores["classes"]
        end = "" if found["linear_probe_converged"] else " (the fit was stopped before its end)"
        output.print(f"classes: {found['knn']:.1%} by neighbours, {found['linear_probe']:.1%} by a linear probe{end}")


def _cells(scores: dict[str, Any]) -> list[str]:
    # One draw has no spread to show, though it has a number for it.
    spread = scores.get("draws", 1) > 1
    shown = {name: value for name, value in scores.items() if spread or not name.endswith("_spread")}
    return [cell(shown, name) for name in COLUMNS]


def _reporter(progress: "Progress", name: str) -> Callable[[float], None]:
    task = progress.add_task(name, total=1.0)
    return lambda done: progress.update(task, completed=done)


def _transfer(progress: "Progress") -> Callable[[str, int, int], None]:
    """Shows how far each file that is fetched has come."""
    reporters: dict[str, Callable[[float], None]] = {}

    def report(name: str, done: int, total: int) -> None:
        if name not in reporters:
            reporters[name] = _reporter(progress, f"fetching {name} ({total / 1e6:,.0f} MB)")
        reporters[name](done / total)

    return report
