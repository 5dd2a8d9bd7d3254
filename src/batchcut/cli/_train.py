"""`batchcut train`: from images or pairs to an encoder."""

import json
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro
from rich.table import Table

from ._console import console
from ._exit import DONE
from ._options import OptionalPath, OptionalText
from ._scores import COLUMNS, cell
from ._watcher import Watcher

if TYPE_CHECKING:
    from batchcut.training import Config, Result


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an encoder, with the batches that teach it most, and score its retrieval.

    A run is a folder: its settings, metrics, plans, checkpoints and the encoder. A run that was stopped and resumed
    ends with what it would have ended with.
    """

    examples: ClassVar[tuple[tuple[str, str], ...]] = (
        ("batchcut train", "on the embedded digits"),
        ("batchcut train --recipe cifar100-small --root DATA", "on images"),
        ("batchcut train --recipe pairs --data pairs:FILE", "on pairs of features"),
        ("batchcut train --recipe list", "the names of all recipes"),
        ("batchcut train epochs=5 optimiser.name=sgd --show", "all settings there are, with two changed"),
        ("batchcut train --resume RUN", "goes on with a run that was stopped"),
    )

    settings: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[KEY=VALUE ...]", help_behavior_hint="")
    ] = ()
    """Settings that differ, such as optimiser.name=sgd selection.selector.method=spectral."""

    recipe: OptionalText = None
    """Start from the settings of this recipe; --recipe list prints the names. Left out, and with no --config:
    digits, or pairs where --data says so."""

    config: OptionalPath = None
    """Start from the settings in this TOML file, such as the config.toml of a run."""

    run_folder: Annotated[
        Path | None,
        tyro.conf.arg(name="out", aliases=["-o", "--run"], metavar="PATH", help_behavior_hint=""),
    ] = None
    """The folder of the run; runs/DATA-METHOD-SEED if left out."""

    resume: OptionalPath = None
    """Go on with the run in this folder."""

    data: OptionalText = None
    """Short for data.name=...: digits, cifar100, folder:PATH, pairs:FILE and so on."""

    root: OptionalPath = None
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
        from batchcut.training import recipe_names, resume, to_toml, train

        if self.recipe == "list":
            self._show(recipe_names(), "\n".join)
            return DONE
        if self.resume is not None:
            self._check_alone()
            with Watcher(hidden=self.quiet or self.json) as watcher:
                try:
                    result = resume(self.resume, observe=watcher)
                except FileNotFoundError as error:
                    where = (
                        f"{self.resume / 'config.toml'}: data.download and data.root there say what these options do"
                    )
                    raise FileNotFoundError(f"{error}\nA run goes on with its own {where}.") from error
        else:
            config = self._settings()
            if self.show:
                text = to_toml(config)
                self._show(tomllib.loads(text), lambda _: text.rstrip())
                return DONE
            with Watcher(hidden=self.quiet or self.json) as watcher:
                result = train(config, self.run_folder or _folder_for(config), observe=watcher)
        if _leads():
            self._print(result)
        return DONE

    def _show(self, content: Any, as_text: Callable[[Any], str]) -> None:
        if not self.quiet:
            print(json.dumps(content, indent=2, ensure_ascii=False) if self.json else as_text(content))

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
        if self.config is not None:
            return None
        return "pairs" if (self.data or "").startswith("pairs:") else "digits"

    def _print(self, result: "Result") -> None:
        if self.quiet:
            return
        if self.json:
            summary = {"run": str(result.run), "steps": result.steps, "scores": result.scores}
            print(json.dumps(summary | {"seconds": result.seconds}, indent=2, ensure_ascii=False))
            return
        table = Table(title=f"{result.run}", title_justify="left", show_header=False)
        table.add_row("steps", f"{result.steps:,}")
        for name, heading in COLUMNS.items():
            table.add_row(heading, cell(result.scores, name))
        total = sum(result.seconds.values())
        for name, value in result.seconds.items():
            table.add_row(f"seconds {name}", f"{value:.1f} ({value / total:.1%})")
        console().print(table)


def _key_and_value(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not (key and equals):
        raise ValueError(f"settings must have the form KEY=VALUE; got {setting!r}")
    return key, value


def _folder_for(config: "Config") -> Path:
    data = config.data.name.partition(":")
    name = Path(data[2]).stem if data[2] else data[0]
    return Path("runs") / f"{name}-{type(config.selection.selector).__name__.lower()}-{config.seed}"


def _leads() -> bool:
    """Whether this is the process that speaks, of one or of many."""
    from torch import distributed

    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0
