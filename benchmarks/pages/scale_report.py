"""Tables of large sets: what `scale.py --write` measured, and, apart from it, what follows from that on paper."""

from typing import Any

from benchmarks.pages.markdown import table_of

Facts = dict[str, Any]

GIB, TB = 2**30, 1e12
CORES = 16  # of a machine, on paper
ON_PAPER = ((100_000_000, 1), (1_000_000_000, 1), (1_000_000_000, 10))
"""Pairs, and machines."""


def measured_table(facts: Facts) -> str:
    """Seconds and memory by size, beside a plan in one piece, and what a second worker brings."""
    rows = [_row(facts["whole"] | {"files": facts["cells"][0]["files"]}, "in one piece")]
    rows += [_row(row, f"in {row['cells']} cells") for row in facts["cells"]]
    table = table_of(("pairs", "planned", "seconds", "for a million", "memory", "files", "mean loss"), rows)
    one, two = facts["workers"]
    times = f"{one['seconds'] / two['seconds']:.2f} times as fast as one worker of one thread"
    again = f"{two['seconds']:.0f} s instead of {one['seconds']:.0f} s for {_many(one['rows'])} pairs"
    moved = f"{two['moved'] / GIB:.2f} GiB are written to the folder of the parts, and read once"
    return "\n".join([table, "", f"Two workers are {times}: {again}; {moved}."])


def _row(row: Facts, planned: str) -> list[str]:
    cells = [_many(row["rows"]), planned, f"{row['seconds']:.0f}", f"{row['seconds'] / row['rows'] * 1e6:.1f}"]
    return [*cells, f"{row['peak'] / GIB:.2f} GiB", f"{row['files'] / GIB:.2f} GiB", f"{row['loss']:.4f}"]


def paper_table(facts: Facts) -> str:
    """Hours, machine-hours and bytes of sets that nobody planned here; by how much a pair takes, nothing else."""
    heads = ["pairs", f"machines of {CORES} cores", "time", "machine-hours", "read and written", "disk for parts"]
    rows = []
    for pairs, machines in ON_PAPER:
        hours = pairs * core_seconds(facts) / (machines * CORES) / 3600
        bytes_moved, parts = (pairs * size / TB for size in _bytes_of_a_pair(facts))
        time = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"
        cells = [_many(pairs), str(machines), time, f"{machines * hours:.1f}"]
        rows.append([*cells, f"{bytes_moved:.2f} TB", f"{parts:.2f} TB"])
    return table_of(heads, rows)


def few_centers_table(facts: Facts) -> str:
    """What is kept of the loss of one piece, by how many centres a cell has, from `few_centers.py`."""
    heads = (f"{row['centers_in_cell']:g}" for row in facts["rows"])
    kept = (f"{loss / facts['whole']:.0%}" for loss in (*(row["loss"] for row in facts["rows"]), facts["shuffled"]))
    return table_of(["centres to a cell", *heads, "shuffled"], [["loss kept", *kept]])


def core_seconds(facts: Facts) -> float:
    """Of a pair: what one worker took, times what the largest set took more, and what side by side is lost."""
    one, two = facts["workers"]
    pace = [row["seconds"] / row["rows"] for row in facts["cells"]]
    grown = max(1.0, pace[-1] / pace[0])
    lost = max(1.0, 2 * two["seconds"] / one["seconds"])
    return float(one["seconds"] / one["rows"] * grown * lost)


def _bytes_of_a_pair(facts: Facts) -> tuple[float, float]:
    """Read and written in all, since files are read, and parts written and read; and of parts alone."""
    largest = facts["cells"][-1]
    parts = largest["moved"] / largest["rows"]
    return largest["files"] / largest["rows"] + 2 * parts, parts


def _many(count: int) -> str:
    return f"{count:,}"
