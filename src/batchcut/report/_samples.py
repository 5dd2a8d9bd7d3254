"""What the samples of a run look like: pictures, texts, classes; as far as they can be had."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from batchcut._errors import invalid
from batchcut._files import read_lines

from ._run import Run

_LONGEST = 160


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """The training samples of a run.

    Attributes:
        pixels: (N, C, H, W) uint8; None where they are no images, or not at hand.
        labels: (N,) classes; None where none are known.
        texts: one for each sample; None where none are given.
        note: why there is neither a picture nor a text; empty where there is.
    """

    pixels: NDArray[np.uint8] | None = None
    labels: NDArray[np.int64] | None = None
    texts: list[str] | None = None
    note: str = ""


def read_texts(path: Path) -> list[str]:
    """One text a line, in the order of the training samples; long ones are cut."""
    lines = read_lines(path, "be a text with a line for each training sample, for --texts")
    return list(map(_cut, lines))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def samples_of(run: Run, texts: list[str] | None) -> Samples:
    """The training samples that the settings of the run name; the note says why where they cannot be read."""
    from batchcut.data import Images, load, load_functions

    name, root = _data_of(run)
    most = run.config.get("data", {}).get("train", "none")
    try:
        part = load(name, root=root).train
    except (OSError, ValueError, ImportError) as error:
        note = f"The samples could not be read, so only their numbers are shown: {error}"
        return Samples(texts=texts, note="" if texts else note)
    count = len(part) if most == "none" else min(len(part), int(most))
    if texts is not None and len(texts) != count:
        raise invalid("--texts", f"hold a line for each of the {count:,} training samples", f"{len(texts):,} lines")
    if texts is None and name == "functions":
        known = load_functions().train
        texts = [_cut(f"{path}: {text}") for path, text in zip(known.names, known.sentences, strict=True)][:count]
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
