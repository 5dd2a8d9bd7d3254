"""By how much one method is above another, and how sure that is: the one place that says so."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How far the scores of one method are above those of another.

    Attributes:
        mean: of the differences, seed by seed; the difference of the means where the seeds are others.
        standard_error: of that mean; not a number where a method has a single seed.
        seeds: how many there are, by which runs are paired; 0 where the two methods have others.
        freedom: the degrees of freedom of the standard error, at least 0; Welch's where runs are not paired.
    """

    mean: float
    standard_error: float
    seeds: int
    freedom: float

    def half_width(self, *, among: int = 1) -> float:
        """Of the interval around the mean that holds the true gain in 95 of 100 cases, by Student's t.

        Where it is the largest of several that were looked at, the interval allows for that (Bonferroni).
        """
        from scipy.special import stdtrit

        if not self.freedom:
            return math.nan
        return float(stdtrit(self.freedom, 1 - (1 - _LEVEL) / 2 / among)) * self.standard_error

    def is_certain(self, *, among: int = 1) -> bool:
        """Whether that interval leaves no doubt about which method is ahead."""
        return abs(self.mean) > self.half_width(among=among)

    @property
    def points(self) -> str:
        """In points, with its standard error where that is known: "+6.6 ± 0.4"."""
        error = "" if math.isnan(self.standard_error) else f" ± {self.standard_error * 100:.1f}"
        return f"{self.mean * 100:+.1f}{error}".replace("-", "−")


def gain_over(scores: Mapping[int, float], others: Mapping[int, float]) -> Gain | None:
    """Of scores by seed over others: in pairs where both have the same seeds; None where either has no score."""
    if not (scores and others):
        return None
    mean = statistics.fmean(scores.values()) - statistics.fmean(others.values())
    seeds = len(scores) if scores.keys() == others.keys() else 0
    if min(len(scores), len(others)) < 2:
        return Gain(mean=mean, standard_error=math.nan, seeds=seeds, freedom=0.0)
    if seeds:
        error = statistics.stdev(scores[seed] - others[seed] for seed in scores) / math.sqrt(seeds)
        return Gain(mean=mean, standard_error=error, seeds=seeds, freedom=seeds - 1.0)
    parts = [(statistics.variance(one.values()) / len(one), len(one) - 1) for one in (scores, others)]
    total = sum(part for part, _ in parts)
    freedom = total**2 / sum(part**2 / degrees for part, degrees in parts) if total else 1.0
    return Gain(mean=mean, standard_error=math.sqrt(total), seeds=0, freedom=freedom)
