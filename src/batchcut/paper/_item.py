"""What an item of the paper is: how to compute it, how to judge it, how to draw it."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from batchcut._errors import check_integer, invalid
from batchcut._progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Data = Mapping[str, Any]
"""What an item computed, as plain numbers, strings, lists and dicts: what its JSON file holds."""

Scale = Literal["full", "quick"]
Word = Literal["agrees", "agrees in part", "does not agree"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run depends on, besides the version.

    Attributes:
        scale: "full", or "quick" for fewer seeds and steps: the same code in a fraction of the time.
        seed: what all randomness is a function of.
        cifar: folder of the CIFAR-100 images, for the items that train; None: the images that come with the library.
        work: where runs of training are kept, for other items and to go on with; None: nowhere. Results do not depend
            on it.
    """

    scale: Scale = "full"
    seed: int = 0
    cifar: Path | None = None
    work: Path | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("full", "quick"):
            raise invalid("scale", "be 'full' or 'quick'", repr(self.scale))
        check_integer("seed", self.seed, at_least=0)

    @property
    def quick(self) -> bool:
        """Whether the run is a small one."""
        return self.scale == "quick"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One point of comparison with the paper.

    Attributes:
        paper: what the paper says.
        here: what came out.
        agrees: whether that is the same.
        why: where it is not, the reason, as far as it is known.
    """

    paper: str
    here: str
    agrees: bool
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All points of comparison of an item, and what they come to."""

    findings: tuple[Finding, ...]

    def __post_init__(self) -> None:
        if not self.findings:
            raise invalid("findings", "hold at least one finding", "none")

    @property
    def word(self) -> Word:
        """Whether all, some or none of the findings agree with the paper."""
        agreeing = sum(finding.agrees for finding in self.findings)
        if agreeing == len(self.findings):
            return "agrees"
        return "agrees in part" if agreeing else "does not agree"

    @property
    def line(self) -> str:
        """All of it in one line."""
        points = "; ".join(
            f"{'yes' if finding.agrees else 'NO'}: paper: {finding.paper} — here: {finding.here}"
            + (f" (because {finding.why})" if finding.why and not finding.agrees else "")
            for finding in self.findings
        )
        return f"{self.word}. {points}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the page: a heading, column names, and rows of text."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Run = Callable[[Settings, Progress], Data]
"""Computes the data of an item."""


class Presentation(Protocol):
    """How the data of an item are judged and shown; the module of an item is one."""

    def judge(self, data: Data, /) -> Verdict:
        """Compares the data with the paper."""

    def draw(self, data: Data, /) -> "Figure":
        """Makes a picture of the data."""

    def describe(self, data: Data, /) -> str:
        """The picture in words, for those who cannot see it."""

    def caption(self, data: Data, /) -> str:
        """How the data were made."""

    def tables(self, data: Data, /) -> tuple[Table, ...]:
        """What the page shows as tables."""


@dataclass(frozen=True)
class Item:
    """A figure or table of the paper.

    Attributes:
        label: LaTeX label in the paper.
        title: what it shows, in a few words.
        minutes: estimated cost on two cores: full, quick.
        presentation: judges and shows the data.
        run: computes the data.
        revision: raised when `run` computes something else than before, so that stored results are not used again.
        needs_images: whether the result depends on `Settings.cifar`.
        small: whether the work consists of pieces so small that threads cost more than they bring.
    """

    label: str
    title: str
    minutes: tuple[float, float]
    presentation: Presentation
    run: Run
    _: KW_ONLY
    revision: int = 1
    needs_images: bool = False
    small: bool = True

    @property
    def folder(self) -> str:
        """The name of its folder among the results: the label in characters that any file system takes."""
        return self.label.replace(":", "-")
