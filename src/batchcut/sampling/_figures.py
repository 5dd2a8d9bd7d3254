"""What the logs of a training say of a plan."""

import numpy as np
import torch
from torch.nn.functional import normalize

from batchcut.selection import BatchPlan, Groups, Shuffle

from ._sampler import PlannedBatchSampler
from .bank import EmbeddingBank, mean_of_views

_MOST_COMPARED = 4096


def figures_of(sampler: PlannedBatchSampler) -> dict[str, float]:
    """Of the plan made last: how hard it is, what it took, and what may be wrong with it; empty where there is none."""
    plan, bank = sampler.measured_plan(), sampler.bank
    if plan is None:
        return {}
    seen = torch.nonzero(bank.seen).flatten()
    figures = figures_of_plan(plan)
    if len(seen):  # else their mean is not a number, which is not JSON
        figures["plan_bank_age"] = float(bank.age[seen].double().mean())
        shuffled = shuffled_loss(bank, plan, average_views=sampler.average_views, groups=sampler.groups)
        figures["plan_times_shuffled"] = plan.mean_loss / max(shuffled, 1e-12)
    if sampler.drop_conflicts:
        figures["plan_left_out"] = float(sampler.left_out)
    return figures


def shuffled_loss(bank: EmbeddingBank, plan: BatchPlan, *, average_views: bool, groups: Groups | None = None) -> float:
    """The mean loss of shuffled batches, in which groups are kept apart too, by the embeddings in a bank.

    They are those that the plan was made from, or a little newer where it was made ahead of its epoch; random rows
    stand in for samples not seen, as in plans. Of some samples where there are many: it must cost next to nothing.
    """
    some, random = np.arange(len(bank.held)), np.random.default_rng([plan.seed, plan.epoch])
    most = max(_MOST_COMPARED, 8 * plan.batch_size)
    if len(some) > most:
        some = random.choice(some, most, replace=False)
    index = torch.from_numpy(some).to(bank.device)
    u, v, unseen = bank.u[index], bank.v[index], ~bank.seen[index]
    if average_views:
        u = v = mean_of_views(u, v)
    u[unseen] = v[unseen] = normalize(torch.from_numpy(random.standard_normal((int(unseen.sum()), bank.dim)))).to(u)
    shuffle, size = Shuffle(temperature=plan.temperature), min(plan.batch_size, len(index))
    apart = None if groups is None else groups.of(some + bank.held.start)
    return shuffle(u, v, batch_size=size, seed=plan.seed, epoch=plan.epoch, groups=apart).mean_loss


def figures_of_plan(plan: BatchPlan) -> dict[str, float]:
    """What a plan itself knows of this."""
    figures = {
        "plan_loss": plan.mean_loss,
        "plan_seconds": plan.seconds,
        "plan_conflicts": float(plan.group_pairs),
        "plan_suspected_false_negatives": float(plan.margin_pairs),
    }
    if plan.effective is not None and plan.effective.size == plan.effective.size:  # not NaN, where it is unknown
        figures["plan_effective_size"] = plan.effective.size
    return figures
