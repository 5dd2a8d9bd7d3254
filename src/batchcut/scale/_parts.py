"""The folder of a plan in the making: what was asked for, and the parts that are done."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from batchcut._errors import invalid
from batchcut._files import check_outside_runs, open_own, read_json, try_lock, write_json

_FORMAT = "batchcut parts 2"
_ASKED, _PLAN, _LOCK = "asked.json", "plan.npz", ".lock"
_BY_MEMORY = ("centers", "cell_batches", "block_rows")
"""What follows from `memory`, where all that stands before it is the same."""


class Parts:
    """The paths in a folder.

    Attributes:
        folder: All of it.
        plan: The plan, once it is made.
        centers: The centres, once they are fitted.
        blocks: The folder of the blocks.
        cells: The folder of the cells.
        batches: The batches of all of them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = folder / _PLAN
        whole = folder.absolute()  # as workers elsewhere know it
        self.centers = whole / "centers.npy"
        self.blocks = whole / "blocks"
        self.cells = whole / "cells"
        self.batches = self.cells / "batches.npy"

    def check_asked(self, asked: dict[str, object]) -> None:
        """Refuses what is not what the folder was opened for."""
        _check_asked("parts", self.folder / _ASKED, asked)

    def clear(self) -> None:
        """Removes all but the plan and what was asked for, once the plan is there."""
        for part in (self.blocks, self.cells):
            shutil.rmtree(part, ignore_errors=True)
        self.centers.unlink(missing_ok=True)


@contextmanager
def open_parts(folder: Path, asked: dict[str, object]) -> Iterator[Parts]:
    """The folder of the parts of a plan, by `open_folder`."""
    check_outside_runs("parts", folder)
    with open_folder("parts", folder, asked):
        parts = Parts(folder)
        if not parts.plan.exists():
            for part in (parts.blocks, parts.cells):
                part.mkdir(exist_ok=True)
        yield parts


@contextmanager
def open_folder(argument: str, folder: Path, asked: dict[str, object]) -> Iterator[None]:
    """The folder, which is made if it is not there, for this process alone; one that holds something else is refused.

    So are the parts of a plan that was asked for otherwise, or of other files.
    """
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise invalid(
            argument, "be a folder", f"{folder}, a {'file' if folder.exists() else 'link that leads nowhere'}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _ASKED).exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise invalid(argument, "be empty, or hold the parts of the same plan", folder)
    with open_own(folder / _LOCK) as lock:
        if try_lock(lock) is False:
            raise invalid(argument, "be one that no other process plans in", folder)
        _check_asked(argument, folder / _ASKED, asked)
        yield


def forget_asked(folder: Path) -> None:
    """Removes what `open_folder` keeps beside the parts, once these are whole."""
    for name in (_ASKED, _LOCK):
        (folder / name).unlink(missing_ok=True)


def _check_asked(argument: str, path: Path, asked: dict[str, object]) -> None:
    asked = {"format": _FORMAT, **asked}
    if not path.exists():
        write_json(path, asked)
        return
    before = read_json(path, dict)
    for name in dict.fromkeys([*asked, *before]):  # what was asked for before what follows from it
        then, now = before.get(name), asked.get(name)
        if then != now:
            then, now = _first_change(then, now)
            same = f"{name}, which follow from memory" if name in _BY_MEMORY else name
            rule = f"hold the parts of the same plan, with the same {same}"
            raise invalid(argument, rule, f"{then!r} in {path.parent}, and {now!r} now")


def _first_change(then: object, now: object) -> tuple[object, object]:
    """Of two long lists, such as those of files, the first entries that differ."""
    if not (isinstance(then, list) and isinstance(now, list)):
        return then, now
    return next((pair for pair in zip_longest(then, now) if pair[0] != pair[1]), (then, now))
