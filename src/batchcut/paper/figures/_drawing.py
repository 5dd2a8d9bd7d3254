"""What several figures draw: heat maps of inner products, all on one colour scale, and the unit circle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from batchcut.paper._style import DIVERGING, faint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


Matrix = Sequence[Sequence[float]]


def draw_heat_maps(panels: "Sequence[Axes]", maps: Sequence[tuple[Matrix, str]], *, last: bool) -> "AxesImage":
    """A row of matrices with their titles; the last row of the figure names the columns."""
    for place, (axes, (matrix, title)) in enumerate(zip(panels, maps, strict=True)):
        image = _heat_map(axes, matrix, title, name_rows=place == 0, name_columns=last)
    return image


def _heat_map(axes: "Axes", matrix: Matrix, title: str, *, name_rows: bool, name_columns: bool) -> "AxesImage":
    """Draws inner products u_i · v_j, from -1 to 1."""
    n = len(matrix)
    image = axes.imshow(matrix, vmin=-1, vmax=1, cmap=DIVERGING)
    ticks = sorted({0, n // 2 - 1, n - 1})
    names = [str(tick + 1) for tick in ticks]
    axes.set_xticks(ticks, names if name_columns else [])
    axes.set_yticks(ticks, names if name_rows else [])
    if name_columns:
        axes.set_xlabel("j of vⱼ")
    if name_rows:
        axes.set_ylabel("i of uᵢ")
    axes.spines[:].set_visible(True)
    axes.set_title(title)
    return image


def draw_circle(axes: "Axes", *, reach: float) -> None:
    """The unit circle alone, with room as far as `reach`."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color=faint(), linewidth=0.8))
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.axis("off")


def opposite_first(matrix: NDArray[np.float64]) -> list[int]:
    """An order of the samples that puts the most opposite ones side by side, pair by pair."""
    both = matrix + matrix.T
    np.fill_diagonal(both, np.inf)
    order: list[int] = []
    while len(order) < len(matrix):
        i, j = divmod(int(both.argmin()), len(matrix))
        order += [i, j]
        both[[i, j], :] = np.inf
        both[:, [i, j]] = np.inf
    return order
