"""Heat maps of inner products, all on one colour scale."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ._style import DIVERGING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


def heat_map(
    axes: "Axes", matrix: Sequence[Sequence[float]], title: str, *, name_rows: bool, name_columns: bool
) -> "AxesImage":
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
