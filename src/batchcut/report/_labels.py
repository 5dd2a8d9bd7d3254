"""What runs are called on a page: by what sets them apart, and short enough for a phone."""

from collections.abc import Sequence
from os.path import commonprefix
from pathlib import Path

from ._run import Run

Task = tuple[tuple[str, str], ...]
"""What a score depends on beside the method: names and values."""

LONGEST, _LONGEST_TASK = 36, 16
"""Letters of a label, and of the name of a task in it, for which a page has room on a phone."""

_WITHOUT_VIEWS = ("pairs:", "functions")
_ENDS = "/\\:,. _-"
_FIRST = ("batch_size", "epochs", "model.", "objective.", "optimizer.", "selection.")


def task_of(run: Run) -> Task:
    """The data that a run learns from and is tested on, and the views that the test is made of.

    Two runs whose tasks differ have scores that say nothing of each other: a test of fewer samples, or of views that
    differ less, is easier.
    """
    data = run.config.get("data", {})
    read = run.starts[0].get("data") if run.starts else None  # which tells versions of one name apart
    facts = {f"data.{name}": data.get(name) for name in ("name", "train", "test")} | {
        "data.name": read or data.get("name")
    }
    if not str(data.get("name")).startswith(_WITHOUT_VIEWS):
        facts |= {f"views.{name}": value for name, value in run.config.get("views", {}).items()}
    return tuple((name, str(value)) for name, value in facts.items() if value is not None)


def task_names(tasks: Sequence[Task]) -> list[str]:
    """A short name for each task, by what differs; empty where there is only one."""
    if len(tasks) == 1:
        return [""]
    return _numbered([_cut(name, _LONGEST_TASK) for name, _ in _told_apart([dict(task) for task in tasks])])


def labels_of(kinds: Sequence[str], settings: Sequence[dict[str, str]]) -> list[str]:
    """The kind of each group, with the settings that tell groups of one kind apart.

    As few settings as do so; "+3" stands for three more that differ.
    """
    labels = list(kinds)
    for kind in dict.fromkeys(kinds):
        places = [place for place, name in enumerate(kinds) if name == kind]
        told = _told_apart([settings[place] for place in places])
        for place, (words, more) in zip(places, told, strict=True):
            labels[place] = _cut(", ".join(filter(None, (kind, words))), LONGEST - len(more)) + more
    return _numbered(labels)


def _told_apart(tables: list[dict[str, str]]) -> list[tuple[str, str]]:
    """In what each table differs from the others, as words; and how many more settings differ, such as " (+3)"."""
    names = sorted({name for table in tables for name in table}, key=_order)
    differing = [name for name in names if name and len({table.get(name) for table in tables}) > 1]
    chosen = _fewest(differing, tables)
    shown = {name: _values(name, [table.get(name, "none").strip("'\"") for table in tables]) for name in chosen}
    more = f" (+{len(differing) - len(chosen)})" if len(differing) > len(chosen) else ""
    return [(", ".join(shown[name][place] for name in chosen), more) for place in range(len(tables))]


def _numbered(labels: list[str]) -> list[str]:
    """The labels, with a number behind those that are the same."""
    return [label if labels.count(label) == 1 else f"{label} #{place + 1}" for place, label in enumerate(labels)]


def _fewest(names: list[str], tables: list[dict[str, str]]) -> list[str]:
    """Names whose values tell all tables apart: again and again the one that tells most apart, the first of equals."""
    chosen: list[str] = []

    def kinds(of: list[str]) -> int:
        return len({tuple(table.get(name) for name in of) for table in tables})

    while kinds(chosen) < kinds(names):
        chosen.append(max((name for name in names if name not in chosen), key=lambda name: kinds([*chosen, name])))
    return [name for name in names if name in chosen]


def _values(name: str, values: list[str]) -> list[str]:
    """What to say of a setting: its last name and value; of names of data, which are paths, only what differs."""
    if name == "data.name":
        short = [short_name(value) for value in values]
        return _without_what_is_common(short if len(set(short)) == len(set(values)) else values)
    return [f"{name.rpartition('.')[2]} {value}" for value in values]


def short_name(name: str) -> str:
    """The name of data, of which a path shows its end, without the digest that tells versions apart."""
    kind, colon, path = name.partition(":")
    return f"{kind}{colon}{Path(path).name}" if colon else kind.partition(" ")[0]


def _without_what_is_common(values: list[str]) -> list[str]:
    """The values without the whole words that all begin with and all end with."""
    start = commonprefix(values)  # noqa: RUF071  letter by letter, and then back to the end of a word
    start = start[: max((start.rfind(end) for end in _ENDS), default=-1) + 1]
    rest = [value[len(start) :] for value in values]
    end = commonprefix([value[::-1] for value in rest])[::-1]  # noqa: RUF071
    end = end[min((place for place in map(end.find, _ENDS) if place >= 0), default=len(end)) :]
    short = [value[: len(value) - len(end)] for value in rest]
    return short if all(short) else values


def _cut(text: str, most: int) -> str:
    """The text with its middle left out where it is too long: both ends tell most."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


def _order(name: str) -> tuple[int, str]:
    """Settings that people change come first."""
    return next((place for place, start in enumerate(_FIRST) if name.startswith(start)), len(_FIRST)), name
