"""Which method came out ahead, whichever it is, and how sure that is."""

import math
import statistics
from dataclasses import dataclass

from ._compare import Comparison, Group, last_scores
from ._svg import percent

_LEVEL = 0.95
_ONE_SEED = "one seed is no verdict"


@dataclass(frozen=True, kw_only=True)
class Lead:
    """By how much the accuracy of one group is above that of another.

    Attributes:
        mean: the difference of the means.
        half_width: of the interval around it that holds the true difference in 95 of 100 cases, by Student's t; not a
            number where a group has a single seed.
        pairs: of how many runs with the same seed in both; 0 where the groups are not paired.
    """

    mean: float
    half_width: float
    pairs: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves no doubt about which is higher."""
        return abs(self.mean) > self.half_width


def lead(one: Group, other: Group, *, among: int = 1) -> Lead:
    """The lead of one group over another: of pairs of one seed where both have the same, by Welch's interval otherwise.

    Where one is the best of several that were looked at, the interval allows for that (Bonferroni).
    """
    from scipy.special import stdtrit

    mine, theirs = last_scores(one), last_scores(other)
    mean = statistics.fmean(mine.values()) - statistics.fmean(theirs.values())
    if min(len(mine), len(theirs)) < 2:
        return Lead(mean=mean, half_width=math.nan, pairs=0)
    if mine.keys() == theirs.keys():
        pairs = len(mine)
        error = statistics.stdev(mine[seed] - theirs[seed] for seed in mine) / math.sqrt(pairs)
        freedom = pairs - 1.0
    else:
        pairs = 0
        parts = [(statistics.variance(scores.values()) / len(scores), len(scores) - 1) for scores in (mine, theirs)]
        total = sum(part for part, _ in parts)
        error = math.sqrt(total)
        freedom = total**2 / sum(part**2 / degrees for part, degrees in parts) if total else 1.0
    quantile = float(stdtrit(freedom, 1 - (1 - _LEVEL) / 2 / max(1, among)))
    return Lead(mean=mean, half_width=quantile * error, pairs=pairs)


def finding(comparison: Comparison) -> str:
    """In a few sentences what the runs say; task by task, since no others can be ranked."""
    parts = comparison.tasks
    if len(parts) == 1:
        return _finding(parts[0])
    apart = "These runs are of different data or tests, and are not ranked against each other."
    return " ".join([apart, *(f"{part.task}: {_finding(part)}" for part in parts)])


def _finding(part: Comparison) -> str:
    scored = [group for group in part.groups if group.finals]
    if not scored:
        return "No run is finished yet."
    base = part.baseline
    rivals = [group for group in scored if group is not base]
    if base is None or base not in scored or not rivals:
        return _without_baseline(scored)
    best = max(rivals, key=lambda group: group.top1)
    ahead = lead(best, base, among=len(rivals))
    scores = f"({percent(best.top1)} against {percent(base.top1)})"
    verdict = _verdict(best.label, ahead, scores) + _sooner(part, best, ahead)
    return f"{verdict}. {_doubt(ahead)}{_others(rivals, best, base)}"


def _verdict(label: str, ahead: Lead, scores: str) -> str:
    points = f"{abs(ahead.mean) * 100:.1f} points"
    if math.isclose(ahead.mean, 0, abs_tol=1e-9):
        return f"{label} and shuffled batches end level {scores}"
    if ahead.mean > 0:
        return f"{label} ends {points} above shuffled batches {scores}"
    return f"No plan beats shuffled batches here: {label} ends {points} below them {scores}"


def _sooner(part: Comparison, best: Group, ahead: Lead) -> str:
    reached = part.steps_to_baseline(best)
    if ahead.mean <= 0 or reached is None or reached >= best.steps:
        return ""
    return f" and passes their result after {reached / best.steps:.0%} of the steps"


def _doubt(ahead: Lead) -> str:
    """How sure it is, in a sentence."""
    if math.isnan(ahead.half_width):
        return f"But {_ONE_SEED}: nothing says how much runs differ by chance."
    seeds = f", {ahead.pairs} seeds in pairs" if ahead.pairs else ""
    interval = f"± {ahead.half_width * 100:.1f} points (95 % interval{seeds})"
    if ahead.certain:
        return f"The difference is known to {interval}."
    return f"That is no verdict: the difference is known to {interval}, which holds 0, so that chance may explain it."


def _others(rivals: list[Group], best: Group, base: Group) -> str:
    behind = [group.label for group in rivals if group is not best and group.top1 < base.top1]
    return f" Behind shuffled batches: {', '.join(behind)}." if behind and best.top1 >= base.top1 else ""


def _without_baseline(scored: list[Group]) -> str:
    """What can be said where nothing is there to compare a plan with, or several shuffled groups are."""
    best, *rest = sorted(scored, key=lambda group: -group.top1)
    if not rest:
        spread = f" ± {best.spread * 100:.2g}" if math.isfinite(best.spread) else f" ({_ONE_SEED})"
        return (
            f"The top-1 accuracy of {best.label} is {percent(best.top1)}{spread}; there is nothing to compare it with."
        )
    ahead = lead(best, rest[0], among=math.comb(len(scored), 2))
    scores = f"({percent(best.top1)} against {percent(rest[0].top1)})"
    return f"{best.label} is {ahead.mean * 100:.1f} points above {rest[0].label}, the next {scores}. {_doubt(ahead)}"
