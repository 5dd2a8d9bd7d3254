"""Whether planned batches will pay, by the embeddings and a plan alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from batchcut._random import Stream, generator

from ._inputs import Doubles, Ints, Pairs, unit_pairs
from ._plan import BatchPlan
from ._shuffle import shuffled_beside
from ._weights import bars_of
from .cut import Cut
from .groups import Groups, read_groups

_ANCHORS = 256
_CELLS_AT_ONCE = 1 << 22
_MUCH, _PAYS = 2.5, 1.5  # times the loss of random batches; by benchmarks/advice.py
_MANY_TWINS = 0.1
_SURE = 3.0  # standard errors
_ROUNDING = 1e-6  # of similarities in float32
_LITTLE = 0.05  # a loss at which a sample's partner has 95% of the mass in its batch


@dataclass(frozen=True, kw_only=True)
class Prospects:
    """What to expect of training on the batches of a plan instead of random ones.

    Attributes:
        times_shuffled: The mean loss of its batches, over that of shuffled ones, in which groups are kept apart too.
        effective: The size of random batches that keep as much of the full-batch gradient; None if it is unknown.
        batch_size: B.
        hard_negatives: How many negatives matter to a sample: exp of the entropy of their softmax masses among all N
            samples but those of its groups, the median over samples and sides.
        twins: The share of samples for which there is another, of other groups, such that the two could exchange
            partners: within the margin, their partners are as similar to the other one.
        margin: That of the plan; where it has none, that of `Cut`.
        partners_nearer: Whether partners are more similar than the sides of different samples are on average, by more
            than three standard errors.
        loss_without_twins: The mean loss of samples in the batches of the plan, if those with which they could exchange
            partners were not there.
    """

    times_shuffled: float
    effective: float | None
    batch_size: int
    hard_negatives: float
    twins: float
    margin: float
    partners_nearer: bool
    loss_without_twins: float

    @property
    def pays(self) -> bool:
        """Whether training on such batches is to be expected to give a better model than on random ones."""
        return self.partners_nearer and self.times_shuffled >= _PAYS and self.loss_without_twins >= _LITTLE

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer and what to do, in words."""
        if not self.partners_nearer:
            answer = (
                "Planning is not worth its time here: partners are no more alike than samples at random. Row i of both "
                "sides must belong together; if it does, train an epoch with shuffled batches and ask again."
            )
            return (answer,)
        found = [self._answer()]
        count = round(self.hard_negatives)
        matter = f"About {'one negative matters' if count == 1 else f'{count:,} negatives matter'} to a sample"
        if count > self.batch_size - 1:
            found.append(f"{matter}, more than a batch of {self.batch_size} holds: each epoch brings others.")
        else:
            found.append(f"{matter}: a batch of {self.batch_size} has room for {'it' if count == 1 else 'them'}.")
        if self.twins >= _MANY_TWINS:
            found.append(
                f"{self.twins:.0%} of the samples have a twin, with which they could exchange partners within a margin "
                f"of {self.margin:g}: where you know which are the same, give groups, and where the two sides are "
                "random views, plan by their mean."
            )
        return tuple(found)

    def _answer(self) -> str:
        harder = f"the loss of such a batch is {self.times_shuffled:.1f} times that of a random one"
        if self.times_shuffled >= _PAYS and not self.pays:
            rest = f"{self.loss_without_twins:.2g}" + (" without samples that have a twin in it" if self.twins else "")
            return f"Planning is not worth its time here: {harder}, but only {rest}: little is left to learn."
        if self.times_shuffled >= _MUCH:
            worth = "" if self.effective is None else f", and it teaches like a random one of {self.effective:,.0f}"
            return f"Planning pays: {harder}{worth}. Leave the first epoch shuffled, as is the default."
        much = f"a batch of {self.batch_size} holds most of what is hard by itself"
        if self.pays:
            return f"Planning brings a little: {harder}, since {much}. A smaller batch, planned, may do as well."
        return f"Planning is not worth its time here: {harder}; either {much}, or no samples are alike."


def prospects(u: object, v: object, plan: BatchPlan, *, groups: object = None) -> Prospects:
    """What to expect of a plan for the embeddings u: (N, d), v: (N, d), and the groups that it was made with.

    `hard_negatives`, `twins` and `loss_without_twins` are estimated from 256 samples.
    They are best those of a model that was trained for an epoch.
    """
    pairs = unit_pairs(u, v)
    rng = generator(Stream.PROSPECTS, plan.seed, plan.epoch)
    samples = np.sort(rng.choice(len(pairs), min(_ANCHORS, len(pairs)), replace=False))
    known = plan.settings.get("margin")
    margin = float(Cut.margin or 0.0) if known is None else float(known)
    kept_apart = read_groups(groups, len(pairs))
    counts, twins = _neighbors(pairs, samples, plan.temperature, margin, kept_apart)
    shuffled = shuffled_beside(plan, pairs.u, pairs.v, groups=kept_apart)
    return Prospects(
        times_shuffled=plan.mean_loss / shuffled.mean_loss if shuffled.mean_loss else 1.0,
        effective=None if plan.effective is None else plan.effective.size,
        batch_size=plan.batch_size,
        hard_negatives=float(np.median(counts)),
        twins=float(np.mean(twins)),
        margin=margin,
        partners_nearer=_partners_nearer(pairs, samples),
        loss_without_twins=_loss_without_twins(pairs, samples, plan, margin),
    )


def _partners_nearer(pairs: Pairs, samples: Ints) -> bool:
    """Whether some samples are nearer to their partners than to the means of both sides, by more than chance."""
    means = pairs.u.mean(axis=0, dtype=np.float64), pairs.v.mean(axis=0, dtype=np.float64)
    nearer = pairs.positive[samples] - (pairs.u[samples] @ means[1] + pairs.v[samples] @ means[0]) / 2
    error = nearer.std() / np.sqrt(len(samples))
    return bool(nearer.mean() > max(_SURE * error, _ROUNDING))


def _loss_without_twins(pairs: Pairs, samples: Ints, plan: BatchPlan, margin: float) -> float:
    """The mean loss of those of some samples that are in a batch, over both sides, without negatives within a margin.

    Where none of them is in a batch, there is nothing to learn from.
    """
    bars, losses = bars_of(pairs.positive, margin), []
    for batch, place in zip(*np.nonzero(np.isin(plan.batches, samples)), strict=True):
        one = plan.batches[batch, place]
        others = np.delete(plan.batches[batch], place)
        others = others[others >= 0]
        forth, back = pairs.v[others] @ pairs.u[one], pairs.u[others] @ pairs.v[one]
        apart = forth + back < bars[one] + bars[others]
        logits = (np.stack([forth, back])[:, apart] - pairs.positive[one]) / plan.temperature
        losses.append(np.logaddexp.reduce(logits, axis=1, initial=0.0).mean())
    return float(np.mean(losses)) if losses else 0.0


def _neighbors(
    pairs: Pairs, samples: Ints, tau: float, margin: float, groups: Groups | None
) -> tuple[Doubles, Doubles]:
    """For each of some samples: on either side, how many negatives matter; and whether it has a twin."""
    counts, twins, bars = [], [], bars_of(pairs.positive, margin)
    step = max(1, _CELLS_AT_ONCE // len(pairs))
    for start in range(0, len(samples), step):
        block = samples[start : start + step]
        own = np.zeros((len(block), len(pairs)), np.bool_)  # no negatives: itself, and those of its groups
        own[np.arange(len(block)), block] = True
        if groups is not None:
            _mark_kin(own, groups, block)
        forth, back = pairs.u[block] @ pairs.v.T, pairs.v[block] @ pairs.u.T
        exchanged = forth + back - bars
        exchanged[own] = -np.inf
        twins.append(exchanged.max(axis=1) >= bars[block])
        for scores in (forth, back):
            scores[own] = -np.inf
            counts.append(_perplexity(scores / tau))
    return np.concatenate(counts), np.concatenate(twins).astype(np.float64)


def _mark_kin(own: npt.NDArray[np.bool_], groups: Groups, block: Ints) -> None:
    """Marks in the row of each sample of a block those that have a group in common with it."""
    firsts, members = groups.members
    for row, sample in zip(own, block, strict=True):
        for code in groups.codes[groups.starts[sample] : groups.starts[sample + 1]]:
            row[members[firsts[code] : firsts[code + 1]]] = True


def _perplexity(scores: npt.NDArray[Any]) -> Doubles:
    """Exp of the entropy of the softmax of each row, 0 where all entries are -inf, which have no mass."""
    found, some = np.zeros(len(scores)), np.isfinite(scores.max(axis=1))
    scores = scores[some]
    shifted = scores - scores.max(axis=1, keepdims=True)
    masses = np.exp(shifted)
    total = masses.sum(axis=1)
    weighted = np.where(masses > 0, masses * np.where(np.isfinite(shifted), shifted, 0.0), 0.0).sum(axis=1)
    found[some] = np.exp(np.log(total) - weighted / total)
    return found
