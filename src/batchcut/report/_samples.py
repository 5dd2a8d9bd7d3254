"""What the samples of a run look like: pictures, texts, classes; as far as they can be had."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from batchcut._errors import invalid, without_number
from batchcut._files import read_lines
from batchcut.selection import as_array

from ._run import Run

_LONGEST = 160


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """The training samples of a run.

    Attributes:
        pixels: (N, C, H, W) uint8; None where they are no images, or not at hand.
        labels: (N,) classes; None where none are known.
        names: what the classes are called, by their numbers; None where they are called by these.
        texts: one for each sample; None where none are given.
        note: why there is neither a picture nor a text; empty where there is.
    """

    pixels: NDArray[np.uint8] | None = None
    labels: NDArray[np.int64] | None = None
    names: list[str] | None = None
    texts: list[str] | None = None
    note: str = ""

    def class_names(self, index: NDArray[np.int64]) -> list[str] | list[int]:
        """What the classes of some samples are called, where classes are known."""
        numbers: list[int] = [] if self.labels is None else self.labels[index].tolist()
        return numbers if self.names is None else [self.names[number] for number in numbers]


def given_samples(count: int, texts: object, images: object, labels: object) -> Samples:
    """The samples of a plan, as far as its user gives them: texts, pixels (N, C, H, W), and classes (N,), or None."""
    from batchcut.data import Images

    lines = None if texts is None else [shortened_text(str(text)) for text in cast("Iterable[object]", texts)]
    pixels = None if images is None else as_array("images", images)
    classes, names = None, None
    if labels is not None:
        given = as_array("labels", labels)
        if given.ndim != 1 or given.dtype.kind not in "biuUSO":
            raise invalid("labels", "hold an integer or a word for each sample", f"{given.dtype}, shape {given.shape}")
        kinds, places = np.unique(given.astype(str) if given.dtype.kind in "USO" else given, return_inverse=True)
        classes, names = places.astype(np.int64), [str(kind) for kind in kinds]
    for name, one in (("texts", lines), ("images", pixels), ("labels", classes)):
        if one is not None and len(one) != count:
            raise invalid(name, f"hold one for each of the {count:,} samples of the plan", f"{len(one):,}")
    if pixels is not None:
        Images("images", pixels, classes)  # which refuses what is no image
    note = "Without texts or images, only the numbers of the samples are shown."
    return Samples(
        pixels=pixels,
        labels=classes,
        names=names,
        texts=lines,
        note=note if lines is None and pixels is None else "",
    )


def shortened_text(text: str) -> str:
    """A text as far as a page has room for it."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def read_texts(path: Path) -> list[str]:
    """One text a line, in the order of the training samples; long ones are cut."""
    lines = read_lines(path, "be a text with a line for each training sample, for --texts")
    return [shortened_text(line) for line in lines]


def samples_of(run: Run, texts: list[str] | None) -> Samples:
    """The training samples that the settings of the run name; the note says why where they cannot be read."""
    from batchcut.data import Images, load, load_functions

    name, root = _data_of(run)
    most = run.config.get("data", {}).get("train", "none")
    try:
        part = load(name, root=root).train
    except (OSError, ValueError, ImportError) as error:
        reason = without_number(error) if isinstance(error, OSError) else error
        note = f"The samples could not be read, so only their numbers are shown: {reason}"
        return Samples(texts=texts, note="" if texts else note)
    count = len(part) if most == "none" else min(len(part), int(most))
    if texts is not None and len(texts) != count:
        raise invalid("--texts", f"hold a line for each of the {count:,} training samples", f"{len(texts):,} lines")
    if texts is None and name == "functions":
        known = load_functions().train
        texts = [shortened_text(f"{path}: {text}") for path, text in zip(known.names, known.sentences, strict=True)][
            :count
        ]
    if not isinstance(part, Images):
        note = "These samples are features without pictures; --texts FILE, with a line for each, shows what they are."
        return Samples(texts=texts, note="" if texts else note)
    labels = None if part.labels is None else part.labels[:count]
    return Samples(pixels=part.pixels[:count], labels=labels, texts=texts)


def files_of(run: Run) -> list[Path]:
    """The files and folders that hold the samples, as far as the settings can say."""
    from batchcut.data import places

    name, root = _data_of(run)
    with contextlib.suppress(ValueError):
        return places(name, root=root)
    return []


def _data_of(run: Run) -> tuple[str, Path | None]:
    settings = run.config.get("data", {})
    root = str(settings.get("root", "none"))
    return str(settings.get("name", "digits")), None if root == "none" else Path(root)
