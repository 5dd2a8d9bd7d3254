"""Which samples were used how often, and how many of the negatives are likely to be none."""

from dataclasses import dataclass

import numpy as np

from batchcut._errors import invalid
from batchcut.selection import BatchPlan

from ._compare import Comparison, Group
from ._explorer import KINDS, ShownPlan
from ._run import Array
from ._samples import Samples
from ._svg import Series

_NONE = float("nan")


@dataclass(frozen=True, kw_only=True, eq=False)
class Coverage:
    """Of the plans of a group.

    Attributes:
        label: of the group.
        plans: how many there are.
        coverage: the share of the samples that is in a batch of a plan; the mean.
        unused: samples that were in no batch of any plan of a run; the mean over runs.
        fewest: how often the sample used least was used in a run.
        most: how often the sample used most was used in a run.
        within_margin: the share of pairs that the plan's own margin calls too similar among the pairs in batches.
        same_group: the share of pairs of one group among the pairs in batches.
        same_class: the share of pairs of one class among the pairs in batches; not a number without classes.
        suspected: by kind of batch, the share of pairs as similar as a sample and its other view, in the last plan.
        by_epoch: epochs and the share of pairs of one class in each.
    """

    label: str
    plans: int
    coverage: float
    unused: float
    fewest: int
    most: int
    within_margin: float
    same_group: float
    same_class: float
    suspected: dict[str, float]
    by_epoch: tuple[Array, Array]


def coverages(comparison: Comparison, samples: Samples, shown: list[ShownPlan]) -> list[Coverage]:
    """Of each group that has plans."""
    last = {plan.label: plan for plan in shown}
    found = (_coverage(group, samples.labels, last.get(group.label)) for group in comparison.groups)
    return [one for one in found if one is not None]


def chance_of_same_class(labels: Array | None) -> float:
    """The share of pairs of one class among all pairs."""
    return _NONE if labels is None else _share(np.bincount(labels)[None, :])


def same_class_series(coverage: Coverage, style: int) -> Series:
    """The share of pairs of one class against the epoch."""
    x, y = coverage.by_epoch
    return Series(label=coverage.label, style=style, x=x, y=y, low=y, high=y)


def _coverage(group: Group, labels: Array | None, shown: ShownPlan | None) -> Coverage | None:
    facts: list[tuple[int, float, float, float, float]] = []
    unused, lowest, highest = [], [], []
    for run in group.runs:
        times: Array | None = None
        for plan in run.plans():
            used = np.bincount(plan.batches[plan.batches >= 0], minlength=plan.count)
            if times is not None and len(times) != len(used):
                raise invalid(str(run.path / "plans"), f"hold plans of one set, of {len(times)} samples", len(used))
            times = used if times is None else times + used
            pairs = max(1, sum(len(members) * (len(members) - 1) // 2 for members in plan))
            shares = (plan.margin_pairs / pairs, plan.group_pairs / pairs, same_class_share(plan, labels))
            facts.append((plan.epoch, plan.coverage, *shares))
        if times is not None:
            unused.append(int((times == 0).sum()))
            lowest.append(int(times.min()))
            highest.append(int(times.max()))
    if not facts:
        return None
    epochs, covered, margin, grouped, same = (np.array(column) for column in zip(*facts, strict=True))
    at = np.unique(epochs)
    return Coverage(
        label=group.label,
        plans=len(facts),
        coverage=float(covered.mean()),
        unused=float(np.mean(unused)),
        fewest=min(lowest),
        most=max(highest),
        within_margin=float(margin.mean()),
        same_group=float(grouped.mean()),
        same_class=float(same.mean()),
        suspected={kind: _NONE if shown is None else shown.suspected(kind) for kind in KINDS},
        by_epoch=(at + 1, np.array([same[epochs == epoch].mean() for epoch in at])),
    )


def same_class_share(plan: BatchPlan, labels: Array | None) -> float:
    """The share of pairs of one class among the pairs in the batches."""
    if labels is None or plan.count > len(labels):
        return _NONE
    counts = np.zeros((len(plan), int(labels.max()) + 1), np.int64)
    for number, members in enumerate(plan):
        counts[number] = np.bincount(labels[members], minlength=counts.shape[1])
    return _share(counts)


def _share(counts: Array) -> float:
    """Of groups with counts (groups, classes): pairs of one class among all pairs within a group."""
    totals = counts.sum(axis=1)
    return float((counts * (counts - 1)).sum() / max(1, (totals * (totals - 1)).sum()))
