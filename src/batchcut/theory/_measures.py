"""How far embeddings are from an optimum."""

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import Tensor

from batchcut._errors import invalid
from batchcut.losses import check_embeddings, check_pair

from ._optima import simplex_etf


def distance_to_optimum(u: Tensor, v: Tensor) -> float:
    """Frobenius distance between the matrix of inner products of u: (n, d), v: (n, d) and the optimal one.

        min_P ‖U Vᵀ − P G* Pᵀ‖_F

    For n ≤ d + 1 the optimum G* is that of the simplex ETF, which is the same under any relabelling P of the samples.
    For n = 2d it is that of the cross-polytope, and P says which samples are opposite: the best P is a minimum-weight
    perfect matching, found exactly. One relabelling serves rows and columns alike; to reorder each row by itself, as
    the authors' code does, understates the distance. Rows are used as they are.
    """
    check_pair(u, v)
    n, d = u.shape
    products = (u.detach().double() @ v.detach().double().T).cpu()
    if n <= d + 1:
        optimum = simplex_etf(n, d)
        return float(torch.linalg.matrix_norm(products - optimum @ optimum.T))
    if n != 2 * d:
        raise invalid("u", f"have n at most d + 1 = {d + 1} or n = 2 d = {2 * d} rows, the cases with a proof", n)
    wanted = torch.eye(n, dtype=torch.float64)
    for i, j in _most_opposite_pairs(products):
        wanted[i, j] = wanted[j, i] = -1
    return float(torch.linalg.matrix_norm(products - wanted))


def _most_opposite_pairs(products: Tensor) -> list[tuple[int, int]]:
    """The perfect matching of the samples with the lowest sum of products, by integer programming."""
    n = len(products)
    first, second = np.triu_indices(n, 1)
    cost = (products + products.T).numpy()[first, second]
    touches = np.zeros((n, len(cost)))
    touches[first, np.arange(len(cost))] = touches[second, np.arange(len(cost))] = 1
    solution = milp(
        cost, integrality=np.ones(len(cost)), bounds=Bounds(0, 1), constraints=LinearConstraint(touches, lb=1, ub=1)
    )
    chosen = solution.x > 0.5
    return list(zip(first[chosen].tolist(), second[chosen].tolist(), strict=True))


def asymmetry(u: Tensor, v: Tensor) -> float:
    """The largest distance between the two embeddings of a pair, of u: (n, d), v: (n, d); 0 where U = V."""
    check_pair(u, v)
    return float(torch.linalg.vector_norm(u.detach() - v.detach(), dim=1).max())


def non_antipodality(u: Tensor) -> float:
    """The largest distance from the negative of a row of u: (n, d) to the nearest row; 0 where u is antipodal.

    Both measures are 0 where the configuration is symmetric and antipodal (`def:sym_and_anti`).
    """
    check_embeddings("u", u)
    rows = u.detach().double()
    return float(torch.cdist(-rows, rows, compute_mode="donot_use_mm_for_euclid_dist").min(dim=1).values.max())
