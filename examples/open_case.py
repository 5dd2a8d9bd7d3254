"""What a search finds in the open case n > d + 1: the table and the figure of docs/open-case.md.

The whole table takes about half an hour on one core:

    python examples/open_case.py --json docs/open-case.json

From the stored results, in a second:

    python examples/open_case.py --read docs/open-case.json --markdown t.md --figure open-case.svg
"""

import argparse
import dataclasses
import json
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.spatial import ConvexHull
from torch import Tensor

from batchcut.theory import Agreement, Found, OpenCase, open_case

CELLS = [(n, d) for d in (2, 3, 4, 5) for n in [*range(d + 2, 11), *([12] if d == 3 else [])]]
DIGITS = 13
"""Of the stored coordinates: enough to evaluate the losses to the last digit."""
HEAD = ("N", "d", "lowest loss", "reached", "curvature", "full batch", "which is")
_SIZES = ("B = 2", "B = 3", "B = N - 1")


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
            (n, d)
            for n, d in CELLS
            if (not options.n or n in options.n) and (not options.d or d in options.d)
        ] or [(n, d) for d in options.d for n in options.n]
        settings = {
            "starts": options.starts,
            "seed": options.seed,
            "temperature": options.temperature,
        }
        cases = [open_case(n, d, **settings) for n, d in track(cells, "searching", console=console)]
    console.print(_table(cases))
    if options.json:
        options.json.write_text(json.dumps([to_json(case) for case in cases]) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(cases))
    if options.figure:
        figure(cases, options.figure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Searches for the minimisers in the open case n > d + 1."
    )
    parser.add_argument(
        "--n",
        type=int,
        nargs="+",
        default=[],
        help="numbers of pairs; all of the table if left out",
    )
    parser.add_argument(
        "--d", type=int, nargs="+", default=[], help="dimensions; all of the table if left out"
    )
    parser.add_argument("--starts", type=int, default=100, help="random starts of each search")
    parser.add_argument("--seed", type=int, default=0, help="of the starts")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument(
        "--read", type=Path, metavar="FILE", help="take stored results instead of searching"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="store the results, with all coordinates"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the tables of the docs page"
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the minimisers of four cells (SVG)"
    )
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
    fields["batches"] = [
        {**vars(agreement), "found": vars(agreement.found)} for agreement in case.batches
    ]
    data: dict[str, Any] = plain(fields)
    return data


def from_json(data: dict[str, Any]) -> OpenCase:
    """The inverse of `to_json`."""

    def found(fields: dict[str, Any]) -> Found:
        rows = {side: torch.tensor(fields[side], dtype=torch.float64) for side in ("u", "v")}
        return Found(
            **{**fields, **rows, "spectrum": tuple((x, count) for x, count in fields["spectrum"])}
        )

    agreements = tuple(
        Agreement(**{**fields, "found": found(fields["found"])}) for fields in data["batches"]
    )
    return OpenCase(**{**data, "full": found(data["full"]), "batches": agreements})


def _sizes(case: OpenCase) -> dict[str, Agreement]:
    by_size = {agreement.found.batch_size: agreement for agreement in case.batches}
    wanted = dict(zip(_SIZES, (2, 3, case.n - 1), strict=True))
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
        full.name or "unnamed",
        _properties(full),
        *(_verdict(sizes[label]) if label in sizes else "" for label in _SIZES),
    ]


def _properties(full: Found) -> str:
    """What holds, but for U = V, which is named where it does not."""
    held = {"U ≠ V": not full.symmetric, "antipodal": full.antipodal, "centred": full.centred}
    return ", ".join(word for word, holds in held.items() if holds) or "neither"


def _verdict(agreement: Agreement) -> str:
    if agreement.agrees:
        return "same"
    return f"{agreement.found.name or 'unnamed'}, {agreement.excess_of_full:.1e}"


def _table(cases: Iterable[OpenCase]) -> Table:
    table = Table(*HEAD, *_SIZES, title="The open case N > d + 1")
    for case in cases:
        table.add_row(*_cells(case))
    return table


def markdown(cases: Sequence[OpenCase]) -> str:
    """The table of the docs page."""
    columns = [*HEAD, *_SIZES]
    rows = (columns, ["---"] * len(columns), *map(_cells, cases))
    return "\n".join(map(_row, rows)) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def figure(cases: Iterable[OpenCase], path: Path) -> None:
    """Draws the full-batch minimiser beside that of all pairs, for four cells."""
    # By name, as only this function needs matplotlib: the table is printed without it.
    import_module("matplotlib").use("Agg")
    plt = import_module("matplotlib.pyplot")
    plt.rcParams.update({"svg.hashsalt": "open-case", "svg.fonttype": "none"})
    by_cell = {(case.n, case.d): case for case in cases}
    drawing = plt.figure(figsize=(10, 5.6))
    for row, column, cell in ((0, 0, (8, 2)), (0, 2, (10, 2)), (1, 0, (8, 3)), (1, 2, (7, 3))):
        if cell not in by_cell:
            continue
        case = by_cell[cell]
        pairs = _sizes(case)["B = 2"].found
        for offset, label, found in ((0, "full batch", case.full), (1, "all pairs (B = 2)", pairs)):
            position = 4 * row + column + offset + 1
            axes = drawing.add_subplot(2, 4, position, projection="3d" if case.d == 3 else None)
            (_draw_solid if case.d == 3 else _draw_circle)(axes, found.u)
            axes.set_title(
                f"N = {case.n}, d = {case.d}, {label}\n{found.name or 'no name'}", fontsize=9
            )
            axes.set_axis_off()
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)


# Blue and orange of Okabe and Ito, which the colour-blind tell apart.
BLUE, LIGHT, ORANGE = "#0072b2", "#56b4e9", "#d55e00"


def _draw_circle(axes: Any, u: Tensor) -> None:
    """The rows u: (n, 2) on the circle; where several coincide, their number stands beside them."""
    angles = torch.linspace(0, 2 * torch.pi, 181)
    axes.plot(angles.cos().numpy(), angles.sin().numpy(), color=LIGHT, linewidth=1)
    together = torch.cdist(u, u) < 1e-4
    turned = (u @ torch.stack([u[0], torch.stack([-u[0, 1], u[0, 0]])]).T).tolist()
    for (x, y), count in zip(turned, together.sum(dim=1).tolist(), strict=True):
        axes.plot(x, y, "o", color=ORANGE if count > 1 else BLUE, markersize=9 if count > 1 else 6)
        if count > 1:
            axes.text(0.72 * x, 0.72 * y, str(count), ha="center", va="center", fontsize=10)
    axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal")


def _draw_solid(axes: Any, u: Tensor) -> None:
    """The convex hull of rows u: (n, 3): its faces, and the lines where faces meet at an angle."""
    art = import_module("mpl_toolkits.mplot3d.art3d")
    points = (u @ torch.linalg.eigh(u.T @ u).eigenvectors).numpy()
    hull = ConvexHull(points)
    axes.add_collection3d(
        art.Poly3DCollection(points[hull.simplices], facecolor=LIGHT, edgecolor="none", alpha=0.2)
    )
    for face, neighbors in enumerate(hull.neighbors):
        for other in neighbors:
            if face < other and abs(hull.equations[face] - hull.equations[other]).max() > 1e-6:
                edge = points[sorted({*hull.simplices[face]} & {*hull.simplices[other]})]
                axes.plot(*edge.T, color=BLUE, linewidth=1)
    axes.scatter(*points.T, color=BLUE, s=22, depthshade=False)
    axes.set(xlim=(-0.7, 0.7), ylim=(-0.7, 0.7), zlim=(-0.7, 0.7), box_aspect=(1, 1, 1))
    axes.view_init(elev=20, azim=25)


if __name__ == "__main__":
    main()
