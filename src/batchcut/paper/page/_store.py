"""Results on disk: one folder per item, written so that it is either complete or counts as absent."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import batchcut
from batchcut._errors import invalid
from batchcut._files import check_outside_runs, read_json, write_bytes
from batchcut.paper._item import Data, Item, Settings, Verdict

RESULT = "result.json"
PICTURES = ("figure.svg", "figure-dark.svg", "figure.png")
VERDICT = "verdict.txt"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A finished item.

    Attributes:
        identity: what the result depends on; equal for equal results.
        seconds: how long it took.
        data: what came out.
    """

    identity: Mapping[str, Any]
    seconds: float
    data: Data


def identity(item: Item, settings: Settings) -> dict[str, Any]:
    """What the result of an item depends on."""
    facts: dict[str, Any] = {
        "label": item.label,
        "revision": item.revision,
        "version": batchcut.__version__,
        "scale": settings.scale,
        "seed": settings.seed,
    }
    if item.needs_images:
        facts["cifar"] = None if settings.cifar is None else str(settings.cifar.resolve())
    return facts


def is_current(item: Item, stored: Stored) -> bool:
    """Whether the result was made by this version of the item, so that the item can read it."""
    return (stored.identity.get("version"), stored.identity.get("revision")) == (batchcut.__version__, item.revision)


def open_folder(path: Path) -> Path:
    """Makes the folder of all results, if it can be made and written to."""
    if path.exists() and not path.is_dir():
        raise invalid("out", "be a folder, or a path where one can be made", f"the file {path}")
    check_outside_runs("out", path)
    path.mkdir(parents=True, exist_ok=True)
    try:
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise invalid("out", "be a folder that can be written to", f"{path} ({error.strerror})") from None
    return path


def load(folder: Path, item: Item) -> Stored | None:
    """The stored result of an item, whatever its settings; None where there is none that can be read."""
    home = folder / item.folder
    try:
        content = read_json(home / RESULT, dict)
        stored = Stored(identity=content["identity"], seconds=float(content["seconds"]), data=content["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    complete = all((home / name).is_file() for name in (*PICTURES, VERDICT))
    known = isinstance(stored.identity, dict) and stored.identity.get("label") == item.label
    return stored if complete and known and isinstance(stored.data, dict) else None


def save(folder: Path, item: Item, stored: Stored, verdict: Verdict, pictures: Mapping[str, bytes]) -> None:
    """Writes all files of an item; the one that says that it is finished is removed first and written last."""
    home = folder / item.folder
    home.mkdir(exist_ok=True)
    (home / RESULT).unlink(missing_ok=True)
    for name, content in pictures.items():
        write_bytes(home / name, content)
    write_bytes(home / VERDICT, f"{item.label}: {verdict.line}\n".encode())
    result = {
        "identity": dict(stored.identity),
        "seconds": round(stored.seconds, 2),
        "verdict": {"word": verdict.word, "findings": [asdict(finding) for finding in verdict.findings]},
        "data": stored.data,
    }
    text = json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_bytes(home / RESULT, text.encode())
