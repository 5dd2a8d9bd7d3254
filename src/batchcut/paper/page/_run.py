"""Running items one by one: what is finished is kept, what was interrupted starts anew."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from batchcut._errors import invalid, unknown_name
from batchcut._progress import silent
from batchcut.paper._item import Data, Item, Settings, Verdict
from batchcut.paper._registry import ITEMS
from batchcut.paper._style import pictures
from batchcut.theory import one_thread

from ._store import Stored, identity, is_current, load, open_folder, save

RUNS = "runs"
"""The folder, among the results, of the runs of training that items share."""

Report = Callable[[Item, float], None]
"""Called with the item that is worked on and the share of it that is done."""

_LISTED = "`batchcut paper list`"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of an item.

    Attributes:
        item: the item.
        verdict: how its result compares with the paper.
        data: the result.
        seconds: how long it took when it was computed.
        settings: what it depends on, by name.
        reused: whether the result was there already.
    """

    item: Item
    verdict: Verdict
    data: Data
    seconds: float
    settings: dict[str, object]
    reused: bool


def choose(names: Sequence[str]) -> list[Item]:
    """The items with the given labels, in the paper's order; all of them for "all"."""
    if not names:
        raise invalid("names", f"be 'all' or some of the {len(ITEMS)} labels that {_LISTED} shows", "none")
    known = [item.label for item in ITEMS]
    for name in names:
        if name != "all" and name not in known:
            raise unknown_name("name", name, known, listed=_LISTED)
    return [item for item in ITEMS if "all" in names or item.label in names]


def run_items(
    items: Sequence[Item],
    settings: Settings,
    *,
    out: Path,
    force: bool = False,
    report: Report | None = None,
) -> Iterator[Outcome]:
    """Runs items and writes each into the folder `out` as soon as it is done.

    An item that is there with the same settings, version and revision is not run again, unless `force`.
    """
    folder = open_folder(out)
    report = report or silent
    for item in items:
        report(item, 0.0)
        stored = None if force else load(folder, item)
        if stored is not None and stored.identity == identity(item, settings):
            yield _outcome(item, stored, reused=True)
            continue
        yield _outcome(item, _compute(item, settings, folder, report), reused=False)


def _compute(item: Item, settings: Settings, folder: Path, report: Report) -> Stored:
    started = time.perf_counter()
    with one_thread() if item.small or settings.quick else nullcontext():
        data = item.run(replace(settings, work=folder / RUNS), lambda share: report(item, share))
    # What is judged and drawn is what the file will hold, so that a stored result gives the same.
    data = json.loads(json.dumps(data, allow_nan=False))
    stored = Stored(identity=identity(item, settings), seconds=time.perf_counter() - started, data=data)
    save(folder, item, stored, item.presentation.judge(data), pictures(item.presentation.draw, data))
    report(item, 1.0)
    return stored


def finished(folder: Path) -> list[Outcome]:
    """All finished items of a folder, in the paper's order, whatever their settings; none of another version."""
    found = ((item, load(folder, item)) for item in ITEMS)
    return [
        _outcome(item, stored, reused=True) for item, stored in found if stored is not None and is_current(item, stored)
    ]


def _outcome(item: Item, stored: Stored, *, reused: bool) -> Outcome:
    return Outcome(
        item=item,
        verdict=item.presentation.judge(stored.data),
        data=stored.data,
        seconds=stored.seconds,
        settings=dict(stored.identity),
        reused=reused,
    )
