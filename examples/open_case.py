"""Prints what a search finds in the open case n > d + 1, and writes the table and the figure of docs/open-case.md.

The whole table takes the better part of an hour on one core:

    python examples/open_case.py --json docs/open-case.json --markdown docs/open-case-table.md

From the stored results, in a second:

    python examples/open_case.py --read docs/open-case.json --markdown table.md --figure docs/img/open-case.svg
"""

import argparse
import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from batchcut.theory import Agreement, Found, OpenCase, open_case

CELLS = [(n, d) for d in (2, 3, 4, 5) for n in range(d + 2, 11)] + [(12, 3)]
DIGITS = 13
"""Of the stored coordinates: enough to evaluate the losses to the last digit."""
HEAD = ["N", "d", "lowest loss", "reached", "curvature", "U = V", "antipodal", "centred", "configuration"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Searches or reads, then prints and writes what was asked for."""
    options = _parser().parse_args(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    torch.set_num_threads(1)
    if options.read:
        cases = [from_json(case) for case in json.loads(options.read.read_text())]
    else:
        cells = [
            (n, d) for n, d in CELLS if (not options.n or n in options.n) and (not options.d or d in options.d)
        ] or [(n, d) for d in options.d for n in options.n]
        settings = {"starts": options.starts, "seed": options.seed, "temperature": options.temperature}
        cases = [open_case(n, d, **settings) for n, d in track(cells, "searching", console=console)]
    console.print(_table(cases))
    if options.json:
        options.json.write_text(json.dumps([to_json(case) for case in cases]) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(cases))
    if options.figure:
        figure(cases, options.figure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Searches for the minimisers in the open case n > d + 1.")
    parser.add_argument("--n", type=int, nargs="+", default=[], help="numbers of pairs; all of the table if left out")
    parser.add_argument("--d", type=int, nargs="+", default=[], help="dimensions; all of the table if left out")
    parser.add_argument("--starts", type=int, default=100, help="random starts of each search")
    parser.add_argument("--seed", type=int, default=0, help="of the starts")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--read", type=Path, metavar="FILE", help="take stored results instead of searching")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the results, with all coordinates")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables of the docs page")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the minimisers of N = 7 and 8, d = 3 (SVG)")
    return parser


def to_json(case: OpenCase) -> dict[str, Any]:
    """A case as plain data; tensors become nested lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return [[round(x, DIGITS) for x in row] for row in value.tolist()]
        if isinstance(value, dict):
            return {key: plain(entry) for key, entry in value.items()}
        return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value

    fields = {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}
    fields["full"] = vars(case.full)
    fields["batches"] = [{**vars(agreement), "found": vars(agreement.found)} for agreement in case.batches]
    data: dict[str, Any] = plain(fields)
    return data


def from_json(data: dict[str, Any]) -> OpenCase:
    """The inverse of `to_json`."""

    def found(fields: dict[str, Any]) -> Found:
        rows = {side: torch.tensor(fields[side], dtype=torch.float64) for side in ("u", "v")}
        return Found(**{**fields, **rows, "spectrum": tuple((x, count) for x, count in fields["spectrum"])})

    agreements = tuple(Agreement(**{**fields, "found": found(fields["found"])}) for fields in data["batches"])
    return OpenCase(**{**data, "full": found(data["full"]), "batches": agreements})


def _sizes(case: OpenCase) -> dict[str, Agreement]:
    by_size = {agreement.found.batch_size: agreement for agreement in case.batches}
    wanted = {"B = 2": 2, "B = 3": 3, "B = N - 1": case.n - 1}
    return {label: by_size[size] for label, size in wanted.items() if size in by_size}


def _cells(case: OpenCase) -> list[str]:
    full = case.full
    sizes = _sizes(case)
    return [
        str(case.n),
        str(case.d),
        f"{full.loss:.8f}",
        f"{full.reached:.0%}",
        f"{full.curvature:.1e}",
        *("yes" if holds else "no" for holds in (full.symmetric, full.antipodal, full.centred)),
        full.name or "unnamed",
        *(_verdict(sizes[label]) if label in sizes else "" for label in ("B = 2", "B = 3", "B = N - 1")),
    ]


def _verdict(agreement: Agreement) -> str:
    return "same" if agreement.agrees else f"differs, {agreement.excess_of_full:.1e}"


def _table(cases: Iterable[OpenCase]) -> Table:
    table = Table("N", *HEAD[1:], "B = 2", "B = 3", "B = N - 1", title="The open case N > d + 1")
    for case in cases:
        table.add_row(*_cells(case))
    return table


def markdown(cases: Sequence[OpenCase]) -> str:
    """The tables of the docs page: all cells, then the minimisers of the cells where they differ."""
    columns = [*HEAD, "B = 2", "B = 3", "B = N - 1"]
    lines = [_row(columns), _row(["---"] * len(columns)), *(_row(_cells(case)) for case in cases), ""]
    head = ["N, d", "loss", "lowest", "excess of the other", "reached", "curvature", "configuration", "inner products"]
    lines += [_row(head), _row(["---"] * len(head))]
    for case in cases:
        if all(agreement.agrees for agreement in case.batches):
            continue
        lines.append(_row([f"{case.n}, {case.d}", "full", *_details(case.full, "")]))
        for agreement in case.batches:
            other = f"{agreement.excess_of_full:.2e}, {agreement.excess_of_batches:.2e}"
            name = f"B = {agreement.found.batch_size}"
            lines.append(_row(["", name, *_details(agreement.found, "same" if agreement.agrees else other)]))
    return "\n".join(lines) + "\n"


def _details(found: Found, excess: str) -> list[str]:
    products = ", ".join(f"{round(x, 4) + 0.0:g} ({count})" for x, count in found.spectrum[:8])
    if len(found.spectrum) > 8:
        products = f"{len(found.spectrum)} distinct, from {found.spectrum[0][0]:.4f} to {found.spectrum[-1][0]:.4f}"
    shape = found.name or " ".join(
        word for word, holds in (("antipodal", found.antipodal), ("centred", found.centred)) if holds
    )
    return [f"{found.loss:.8f}", excess, f"{found.reached:.0%}", f"{found.curvature:.1e}", shape or "unnamed", products]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def figure(cases: Iterable[OpenCase], path: Path) -> None:
    """Draws the full-batch and the B = 2 minimiser of N = 7 and N = 8 in three dimensions, side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = [case for case in cases if (case.n, case.d) in ((7, 3), (8, 3))]
    plt.rcParams["svg.hashsalt"] = "open-case"
    drawing = plt.figure(figsize=(9, 2.6 * max(1, len(shown))))
    for row, case in enumerate(shown):
        points = [("full batch", case.full), *((label, x.found) for label, x in _sizes(case).items())]
        chosen = [entry for entry in points if entry[0] in ("full batch", "B = 2", "B = 3")]
        for column, (label, found) in enumerate(chosen):
            axes = drawing.add_subplot(len(shown), 3, 3 * row + column + 1, projection="3d")
            _draw(axes, found.u)
            axes.set_title(f"N = {case.n}, {label}\n{found.name}".strip(), fontsize=9)
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)


def _draw(axes: Any, u: Tensor) -> None:
    """The convex hull of the rows u: (n, 3), turned so that two configurations can be compared."""
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
    from scipy.spatial import ConvexHull

    turned = (u @ torch.linalg.eigh(u.T @ u).eigenvectors).numpy()
    faces = turned[ConvexHull(turned).simplices]
    # Blue and orange of Okabe and Ito, which the colour-blind tell apart.
    axes.add_collection3d(Poly3DCollection(faces, facecolor="#56b4e9", edgecolor="#0072b2", alpha=0.25, linewidth=0.8))
    axes.scatter(*turned.T, color="#d55e00", s=18, depthshade=False)
    axes.set(xlim=(-0.8, 0.8), ylim=(-0.8, 0.8), zlim=(-0.8, 0.8), box_aspect=(1, 1, 1))
    axes.view_init(elev=18, azim=25)
    axes.set_axis_off()


if __name__ == "__main__":
    main()
