"""What the logs of a training say of a plan."""

import torch

from batchcut.selection import BatchPlan, Shuffle

from ._sampler import PlannedBatchSampler

_MOST_COMPARED = 4096


def figures_of(sampler: PlannedBatchSampler) -> dict[str, float]:
    """Of the plan made last: how hard it is, what it took, and what may be wrong with it; empty where there is none.

    Times the loss of shuffled batches, by at most 4,096 samples: it must cost next to nothing.
    """
    plan, bank = sampler.plan, sampler.bank
    if plan is None:
        return {}
    seen = torch.nonzero(bank.seen).flatten()
    figures = figures_of_plan(plan) | {"plan_bank_age": float(bank.age[seen].double().mean())}
    some = seen[torch.linspace(0, len(seen) - 1, min(len(seen), max(_MOST_COMPARED, 8 * plan.batch_size))).long()]
    if len(some) >= plan.batch_size:
        u, v = bank.u[some], bank.v[some]
        random = Shuffle()(u, v, batch_size=plan.batch_size, temperature=plan.temperature, seed=plan.seed)
        figures["plan_times_shuffled"] = plan.mean_loss / max(random.mean_loss, 1e-12)
    return figures


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
