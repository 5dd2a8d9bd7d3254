"""The signal of a step: how far the gradient of a single batch points along that of the full batch.

Batches may keep more of the full-batch gradient on average (see `_effective`) and differ more from each other, too. An
optimizer that scales its steps by the size of its gradients, as Adam does, gets ahead along the full-batch gradient M,
in a step, by

    signal = ⟨E M(S), M⟩ / (|M| √(E |M(S)|²)),   M(S) = Σ_{i∈S} (∂L_S/∂u_i (u_i, 1)ᵀ, ∂L_S/∂v_i (v_i, 1)ᵀ):

the mean along M against the root mean square length, where L_S is the two-sided loss of the batch S and M(S) its
gradient with respect to an affine layer on the embeddings of either side. It is 1 for the full batch, and the cosine of
M(S) and M where all batches have gradients of one length.
"""

from dataclasses import dataclass

import numpy as np

from batchcut._conventions import DEFAULT_TEMPERATURE
from batchcut._errors import check_integer
from batchcut._random import Stream, generator

from ._effective import check_batches_of, tangent
from ._epoch import deal
from ._inputs import Doubles, Ints, Pairs, unit_pairs
from ._weights import check_temperature

_REFERENCE = 2048  # samples whose loss stands for that of the full batch
_BATCHES = 128


@dataclass(frozen=True, kw_only=True)
class StepSignal:
    """How far one batch of a plan, and one of random samples, points along the full-batch gradient.

    Attributes:
        planned: The signal of the plan's batches, 1 for the full batch.
        shuffled: That of random batches of the same size.
    """

    planned: float
    shuffled: float

    @property
    def ratio(self) -> float:
        """Above 1 where a step on a planned batch gets further than one on a random batch."""
        return self.planned / max(self.shuffled, np.finfo(np.float64).tiny)


def step_signal(
    u: object,
    v: object,
    batches: object,
    *,
    temperature: float = DEFAULT_TEMPERATURE,
    seed: int = 0,
    epoch: int = 0,
) -> StepSignal:
    """The signal of a step on the given batches and on random ones, by the embeddings u: (N, d), v: (N, d).

    Estimated from at most 128 batches of either kind; 2,048 random samples stand for the full batch of more.

    Args:
        u: Embeddings of one side: NumPy array, memory map or torch tensor of floats; rows are made unit vectors.
        v: Embeddings of the other side; row i of u and v belong together.
        batches: A plan, or (K, B) indices; where a batch is short, its row ends in -1.
        temperature: τ of the loss.
        seed: With `epoch`, what the batches and samples that are looked at are a function of.
        epoch: See `seed`.
    """
    pairs, tau = unit_pairs(u, v), check_temperature(temperature)
    rows = check_batches_of(batches, len(pairs))
    numbers = (check_integer(name, value, at_least=0) for name, value in (("seed", seed), ("epoch", epoch)))
    rng = generator(Stream.STEP_SIGNAL, *numbers)
    full = _gradient(pairs, rng.permutation(len(pairs))[:_REFERENCE], tau)
    random = deal(rng.permutation(len(pairs)), rows.shape[1])
    planned, shuffled = (_signal(pairs, _some(kind, rng), full, tau) for kind in (rows, random))
    return StepSignal(planned=planned, shuffled=shuffled)


def _some(batches: Ints, rng: np.random.Generator) -> Ints:
    return batches[rng.permutation(len(batches))[:_BATCHES]]


@dataclass(frozen=True, eq=False)
class _LayerGradient:
    """M(S) without its d × d numbers: M(S) = Σ_i g_i (x_i, 1)ᵀ, for either side.

    Attributes:
        rows: (2, B, d) unit rows x_i of u and of v.
        gradients: (2, B, d) g_i.
    """

    rows: Doubles
    gradients: Doubles

    def dot(self, other: "_LayerGradient") -> float:
        """⟨M(S), M(T)⟩ = Σ_{ij} ⟨g_i, g_j⟩ (1 + ⟨x_i, x_j⟩)."""
        return float(((self.gradients @ other.gradients.mT) * (1 + self.rows @ other.rows.mT)).sum())


def _gradient(pairs: Pairs, samples: Ints, tau: float) -> _LayerGradient:
    """That of the mean two-sided loss of some samples."""
    sides = np.stack([pairs.u.take(samples, axis=0), pairs.v.take(samples, axis=0)]).astype(np.float64)
    scores = sides[0] @ sides[1].T / tau
    pulls = _softmax(scores) + _softmax(scores.T).T - 2 * np.eye(len(samples))
    gradients = np.stack([pulls @ sides[1], pulls.T @ sides[0]]) / (2 * tau * len(samples))
    return _LayerGradient(sides, np.stack([tangent(gradients[k], sides[k]) for k in range(2)]))


def _softmax(scores: Doubles) -> Doubles:
    masses = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _signal(pairs: Pairs, batches: Ints, full: _LayerGradient, tau: float) -> float:
    found = [_gradient(pairs, batch[batch >= 0], tau) for batch in batches]
    along = np.mean([one.dot(full) for one in found])
    length = np.sqrt(np.mean([one.dot(one) for one in found]) * full.dot(full))
    return float(along / length) if length > 0 else 0.0
