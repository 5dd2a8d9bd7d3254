"""Whether planned batches will pay, by the embeddings and a plan alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._random import Stream, generator

from ._inputs import Doubles, Ints, Pairs, unit_pairs
from ._plan import BatchPlan
from ._shuffle import Shuffle
from ._weights import bars_of
from .cut import Cut

_ANCHORS = 256
_CELLS_AT_ONCE = 1 << 22
_MUCH, _PAYS = 2.5, 1.5  # times the loss of random batches; by benchmarks/advice.py
_MANY_TWINS = 0.1


@dataclass(frozen=True, kw_only=True)
class Prospects:
    """What to expect of training on the batches of a plan instead of random ones.

    Attributes:
        times_shuffled: The mean loss of its batches, over that of shuffled ones.
        effective: The size of random batches that keep as much of the full-batch gradient; None if it is unknown.
        batch_size: B.
        hard_negatives: How many negatives matter to a sample: exp of the entropy of their softmax masses among all N
            samples, the median over samples and sides.
        twins: The share of samples for which there is another, such that the two could exchange partners: within the
            margin, their partners are as similar to the other one.
        margin: That of the plan; where it has none, that of `Cut`.
    """

    times_shuffled: float
    effective: float | None
    batch_size: int
    hard_negatives: float
    twins: float
    margin: float

    @property
    def pays(self) -> bool:
        """Whether training on such batches is to be expected to give a better model than on random ones."""
        return self.times_shuffled >= _PAYS

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer and what to do, in words."""
        found = [self._answer()]
        matter = f"About {self.hard_negatives:,.0f} negatives matter to a sample"
        if round(self.hard_negatives) > self.batch_size - 1:
            found.append(f"{matter}, more than a batch of {self.batch_size} holds: each epoch brings others.")
        else:
            found.append(f"{matter}: a batch of {self.batch_size} has room for them.")
        if self.twins >= _MANY_TWINS:
            found.append(
                f"{self.twins:.0%} of the samples have a twin, with which they could exchange partners within a margin "
                f"of {self.margin:g}: where you know which are the same, give groups, and where the two sides are "
                "random views, plan by their mean."
            )
        return tuple(found)

    def _answer(self) -> str:
        harder = f"the loss of such a batch is {self.times_shuffled:.1f} times that of a random one"
        if self.times_shuffled >= _MUCH:
            worth = "" if self.effective is None else f", and it teaches like a random one of {self.effective:,.0f}"
            return f"Planning pays: {harder}{worth}. Leave the first epoch shuffled, as is the default."
        much = f"a batch of {self.batch_size} holds most of what is hard by itself"
        if self.pays:
            return f"Planning brings a little: {harder}, since {much}. A smaller batch, planned, may do as well."
        return f"Planning is not worth its time here: {harder}; either {much}, or no samples are alike."


def prospects(u: object, v: object, plan: BatchPlan) -> Prospects:
    """What to expect of a plan for the embeddings u: (N, d), v: (N, d); `hard_negatives` and `twins` by 256 samples.

    They are best those of a model that was trained for an epoch.
    """
    pairs = unit_pairs(u, v)
    rng = generator(Stream.PROSPECTS, plan.seed, plan.epoch)
    samples = np.sort(rng.choice(len(pairs), min(_ANCHORS, len(pairs)), replace=False))
    known = plan.settings.get("margin")
    margin = float(Cut.margin or 0.0) if known is None else float(known)
    counts, twins = _neighbors(pairs, samples, plan.temperature, margin)
    shuffled = Shuffle(temperature=plan.temperature)(
        pairs.u, pairs.v, batch_size=plan.batch_size, seed=plan.seed, epoch=plan.epoch, drop_last=plan.drop_last
    )
    return Prospects(
        times_shuffled=plan.mean_loss / shuffled.mean_loss if shuffled.mean_loss else 1.0,
        effective=None if plan.effective is None else plan.effective.size,
        batch_size=plan.batch_size,
        hard_negatives=float(np.median(counts)),
        twins=float(np.mean(twins)),
        margin=margin,
    )


def _neighbors(pairs: Pairs, samples: Ints, tau: float, margin: float) -> tuple[Doubles, Doubles]:
    """For each of some samples: on either side, how many negatives matter; and whether it has a twin."""
    counts, twins, bars = [], [], bars_of(pairs.positive, margin)
    step = max(1, _CELLS_AT_ONCE // len(pairs))
    for start in range(0, len(samples), step):
        block = samples[start : start + step]
        own = np.arange(len(block)), block
        forth, back = pairs.u[block] @ pairs.v.T, pairs.v[block] @ pairs.u.T
        exchanged = forth + back - bars
        exchanged[own] = -np.inf
        twins.append(exchanged.max(axis=1) >= bars[block])
        for scores in (forth, back):
            scores[own] = -np.inf
            counts.append(_perplexity(scores / tau))
    return np.concatenate(counts), np.concatenate(twins).astype(np.float64)


def _perplexity(scores: npt.NDArray[Any]) -> Doubles:
    """Exp of the entropy of the softmax of each row; entries of -inf have no mass."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    masses = np.exp(shifted)
    total = masses.sum(axis=1)
    weighted = np.where(masses > 0, masses * np.where(np.isfinite(shifted), shifted, 0.0), 0.0).sum(axis=1)
    return np.asarray(np.exp(np.log(total) - weighted / total), np.float64)
