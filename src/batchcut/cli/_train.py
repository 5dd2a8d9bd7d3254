"""`batchcut train`: from images or pairs to an encoder."""

import gc
import json
import shlex
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter
from rich.table import Table

from batchcut._errors import without_number
from batchcut._files import UnreadableError, read_text, reading

from ._output import COLUMNS, as_json, cell, console
from ._verb import DONE

if TYPE_CHECKING:
    from batchcut.training import Config, Result


@dataclass(frozen=True)
class Train:
    """Train an encoder, with the batches that teach it most, and score its retrieval.

    A run is a folder: its settings, metrics, plans, checkpoints and the encoder. A run that was stopped and resumed
    ends with what it would have ended with.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut train", "on the embedded digits"),
        ("batchcut train --recipe cifar100-small --root DATA", "on images"),
        ("batchcut train --data folder:PATH", "on your own images"),
        ("batchcut train --data pairs:FILE", "on pairs of features"),
        ("batchcut train --data functions", "on the Python functions on this machine"),
        ("batchcut train --recipe list", "the names of all recipes"),
        ("batchcut train epochs=5 optimizer.name=sgd --show", "all settings there are, with two changed"),
        ("batchcut train --resume RUN", "goes on with a run that was stopped"),
    )

    settings: Annotated[tuple[str, ...], Parameter(name="KEY=VALUE", show_default=False)] = ()
    """Settings that differ, such as optimizer.name=sgd selection.selector.method=spectral."""

    _: KW_ONLY

    recipe: str | None = None
    """Start from the settings of this recipe; --recipe list prints the names. Left out, and with no --config:
    by the data: digits, pairs for functions and pairs:FILE, images for all others."""

    config: Path | None = None
    """Start from the settings in this TOML file, such as the config.toml of a run."""

    run_folder: Annotated[Path | None, Parameter(name="out", alias=("-o", "--run"))] = None
    """The folder of the run; runs/DATA-METHOD-SEED if left out."""

    resume: Path | None = None
    """Go on with the run in this folder."""

    data: str | None = None
    """Short for data.name=...: digits, functions, cifar100, folder:PATH, pairs:FILE and so on."""

    root: Path | None = None
    """Short for data.root=...: where data sets are."""

    download: bool = False
    """Short for data.download=true: fetch what is missing from the official address."""

    show: bool = False
    """Print all settings as TOML, or as JSON with --json, and do nothing else."""

    json: bool = False
    """Print the summary as JSON."""

    quiet: bool = False
    """Print nothing."""

    def after_interrupt(self) -> str:
        """How to go on; with nothing where the run had not yet begun."""
        folder = self.resume or self.run_folder or _folder_for(self._settings())
        if not (folder / "config.toml").is_file():
            return ""
        return f"to go on from the last checkpoint:\nbatchcut train --resume {shlex.quote(str(folder))}"

    def run(self) -> int:
        """Trains and prints what came out."""
        if self.resume is None and self.recipe != "list" and not self.show:
            self._check_data()
        from batchcut.training import recipe_names, resume, to_toml, train

        from ._progress import Watcher

        if self.recipe == "list":
            self._show(recipe_names(), "\n".join)
            return DONE
        if self.resume is not None:
            self._check_alone()
            with Watcher(hidden=self.quiet) as watcher:
                try:
                    result = resume(self.resume, observe=watcher)
                except FileNotFoundError as error:
                    where = (
                        f"{self.resume / 'config.toml'}: data.name there says where its data are, data.root and "
                        "data.download what these options do"
                    )
                    raise FileNotFoundError(f"{without_number(error)}\nA run goes on with its own {where}.") from error
        else:
            config = self._settings()
            if self.show:
                text = to_toml(config)
                self._show(tomllib.loads(text), lambda _: text.rstrip())
                return DONE
            with Watcher(hidden=self.quiet, opening=self._chosen_by_the_data(config)) as watcher:
                result = train(config, self.run_folder or _folder_for(config), observe=watcher)
        if _leads():
            self._print(result)
        _part()
        return DONE

    def _show(self, content: Any, as_text: Callable[[Any], str]) -> None:
        if not self.quiet:
            print(as_json(content) if self.json else as_text(content))

    def _check_alone(self) -> None:
        others = (self.settings, self.recipe, self.config, self.run_folder, self.data, self.root)
        if any(others) or self.download or self.show:
            raise ValueError("--resume goes on with a run as it was begun; nothing but --json and --quiet goes with it")

    def _settings(self) -> "Config":
        from batchcut.training import config_of, merged, read_toml, recipe, with_overrides

        name = self.recipe or self._usual_recipe()
        tree: dict[str, Any] = {} if name is None else recipe(name)
        sources = [] if name is None else [f"recipe {name}"]
        if self.config is not None:
            tree = merged(tree, read_toml(self.config))
            sources.append(str(self.config))
        overrides = dict(_key_and_value(setting) for setting in self.settings)
        if self.data is not None:
            overrides["data.name"] = json.dumps(self.data)
        if self.root is not None:
            overrides["data.root"] = json.dumps(str(self.root))
        if self.download:
            overrides["data.download"] = "true"
        return config_of(with_overrides(tree, overrides), source=", ".join(sources) or "settings")

    def _usual_recipe(self) -> str | None:
        """That of digits, of pairs of features or of images, as the data are; None where there is a --config."""
        if self.config is not None:
            return None
        name = self._named_data() or "digits"
        if name == "functions" or name.startswith("pairs:"):
            return "pairs"
        return "digits" if name == "digits" else "images"

    def _chosen_by_the_data(self, config: "Config") -> str:
        """What is trained with, where nobody named a recipe for the data that was named."""
        name = self._usual_recipe()
        if self.recipe is not None or name is None or self._named_data() is None:
            return ""
        epochs = "1 epoch" if config.epochs == 1 else f"{config.epochs} epochs"
        return (
            f"recipe {name}, chosen by the data (--recipe names another, --show prints all settings): "
            f"{epochs}, batches of {config.batch_size}, {config.model.encoder}"
        )

    def _named_data(self) -> str | None:
        """What --data or a word data.name=... says."""
        words = [value for key, _, value in (word.partition("=") for word in self.settings) if key == "data.name"]
        return self.data or (words[-1].strip("\"'") if words else None)

    def _check_data(self) -> None:
        """Refuses files that are not there before torch is loaded, which takes seconds."""
        from batchcut.data import check_there

        name = self._named_data() or (None if self.config is None else _data_in(self.config))
        if name is not None:
            check_there(name)

    def _print(self, result: "Result") -> None:
        if self.quiet:
            return
        if self.json:
            summary = {"run": str(result.run), "steps": result.steps, "scores": result.scores}
            print(as_json(summary | {"seconds": result.seconds}))
            return
        table = Table(title=f"{result.run}", title_justify="left", show_header=False)
        table.add_row("steps", f"{result.steps:,}")
        for name, heading in COLUMNS.items():
            table.add_row(heading, cell(result.scores, name))
        total = sum(result.seconds.values())
        for name, value in result.seconds.items():
            table.add_row(f"seconds {name}", f"{value:.1f} ({value / total:.1%})")
        console().print(table)


def _data_in(path: Path) -> str | None:
    """The name of the data in a file of settings, as far as one can tell; what is wrong with it is told later."""
    with suppress(OSError, UnreadableError), reading(path, "be TOML"):
        if path.is_file():  # a pipe can be read once
            name = tomllib.loads(read_text(path, "be TOML")).get("data", {}).get("name")
            return name if isinstance(name, str) else None
    return None


def _key_and_value(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not (key and equals):
        raise ValueError(f"settings must have the form KEY=VALUE; got {setting!r}")
    return key, value


def _folder_for(config: "Config") -> Path:
    data = config.data.name.partition(":")
    name = Path(data[2]).stem if data[2] else data[0]
    return Path("runs") / f"{name}-{type(config.selection.selector).__name__.lower()}-{config.seed}"


def _part() -> None:
    """Lets the processes of a group end together, with nothing left that talks: torch would abort one at its exit."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        gc.collect()
        distributed.barrier()
        distributed.destroy_process_group()


def _leads() -> bool:
    """Whether this is the process that speaks, of one or of many."""
    from torch import distributed

    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0
