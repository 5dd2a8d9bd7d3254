"""What the logs say of a plan."""

import pytest
import torch

import batchcut as bc
from batchcut.sampling import figures_of, mean_of_views


def _sampler(count: int = 64, groups: object = None) -> bc.PlannedBatchSampler:
    bank = bc.EmbeddingBank(count, 8)
    random = torch.Generator().manual_seed(0)
    u = torch.randn(count // 8, 8, generator=random).repeat_interleave(8, 0)
    u = u + 0.3 * torch.randn(count, 8, generator=random)
    bank.record(torch.arange(count), u, u + 0.1 * torch.randn(count, 8, generator=random))
    return bc.PlannedBatchSampler(bank, batch_size=8, temperature=0.1, shuffled_epochs=0, groups=groups)


def test_of_no_plan_are_none() -> None:
    assert figures_of(_sampler()) == {}


def test_are_those_of_the_plan_and_the_bank() -> None:
    sampler = _sampler()
    list(sampler)
    found, plan = figures_of(sampler), sampler.measured_plan()
    assert plan is not None
    shuffled = bc.Shuffle()(sampler.bank.u, sampler.bank.v, batch_size=8, temperature=0.1)
    assert found["plan_times_shuffled"] == pytest.approx(plan.mean_loss / shuffled.mean_loss)
    assert found["plan_times_shuffled"] > 1
    assert (found["plan_loss"], found["plan_seconds"]) == (plan.mean_loss, plan.seconds)
    assert (found["plan_conflicts"], found["plan_suspected_false_negatives"]) == (0, plan.margin_pairs)
    assert plan.effective is not None
    assert found["plan_effective_size"] == plan.effective.size
    assert found["plan_bank_age"] == 0


def test_shuffled_batches_keep_groups_apart_too() -> None:
    groups = [[f"{i % 8}", f"of {i // 4}"] for i in range(64)]
    sampler = _sampler(groups=groups)
    list(sampler)
    assert sampler.plan is not None
    u, v = sampler.bank.u, sampler.bank.v
    mixed, apart = (bc.Shuffle()(u, v, batch_size=8, temperature=0.1, groups=kept) for kept in (None, groups))
    found = figures_of(sampler)["plan_times_shuffled"]
    assert found == pytest.approx(sampler.plan.mean_loss / apart.mean_loss)
    assert found > 1.1 * sampler.plan.mean_loss / mixed.mean_loss


@pytest.mark.parametrize("average_views", [False, True])
def test_samples_not_seen_count_alike_in_planned_and_shuffled_batches(average_views: bool) -> None:
    whole, bank = _sampler(512).bank, bc.EmbeddingBank(512, 8)
    seen = torch.randperm(512, generator=torch.Generator().manual_seed(1))[:128]
    bank.record(seen, whole.u[seen], whole.v[seen])
    sampler = bc.PlannedBatchSampler(
        bank, batch_size=8, temperature=0.1, shuffled_epochs=0, average_views=average_views
    )
    list(sampler)
    assert sampler.plan is not None
    found = figures_of(sampler)["plan_times_shuffled"]
    rows = torch.nn.functional.normalize(torch.randn(512, 8, generator=torch.Generator().manual_seed(2)), dim=1)
    u, v = rows, rows.clone()
    u[seen], v[seen] = whole.u[seen], whole.v[seen]
    if average_views:
        u[seen] = v[seen] = mean_of_views(whole.u[seen], whole.v[seen])
    shuffled = bc.Shuffle()(u, v, batch_size=8, temperature=0.1)
    assert found == pytest.approx(sampler.plan.mean_loss / shuffled.mean_loss, rel=0.2)
    assert found > 1


@pytest.mark.filterwarnings("ignore:64 embeddings were NaN")
def test_all_are_numbers_where_nothing_was_recorded() -> None:
    bank = bc.EmbeddingBank(64, 8)
    bank.record(torch.arange(64), torch.full((64, 8), torch.nan), torch.ones(64, 8))
    sampler = bc.PlannedBatchSampler(bank, batch_size=8, temperature=0.1, shuffled_epochs=0)
    list(sampler)
    found = figures_of(sampler)
    assert all(value == value for value in found.values())
    assert "plan_bank_age" not in found


def test_age_is_in_records() -> None:
    sampler = _sampler()
    list(sampler)
    for _ in range(3):
        sampler.bank.record(torch.arange(32), torch.ones(32, 8), torch.ones(32, 8))
    assert figures_of(sampler)["plan_bank_age"] == pytest.approx(1.5)
