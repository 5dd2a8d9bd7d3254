from functools import partial

import pytest
import torch
from torch.nn.functional import normalize

from batchcut.losses.paper import contrastive_loss, minibatch_loss, ordered_loss
from batchcut.theory import descend, distance_to_optimum, optimal_loss, random_embeddings


@pytest.mark.parametrize("normalize", ["each step", "in the loss"])
def test_full_batch_reaches_the_etf(normalize: str) -> None:
    u, v = random_embeddings(4, 8, seed=0)
    end = descend(contrastive_loss, u, v, steps=2000, normalize=normalize)  # type: ignore[arg-type]
    assert distance_to_optimum(end.u, end.v) < 1e-3
    assert end.losses[-1] == pytest.approx(optimal_loss(4, 8), abs=1e-6)


def test_all_batches_reach_the_etf() -> None:
    u, v = random_embeddings(4, 8, seed=1)
    end = descend(partial(minibatch_loss, batches="all", batch_size=2), u, v, steps=2000)
    assert distance_to_optimum(end.u, end.v) < 1e-2


def test_a_subset_does_not_reach_the_etf() -> None:
    u, v = random_embeddings(4, 8, seed=1)
    end = descend(partial(minibatch_loss, batches=[[0, 1], [2, 3]]), u, v, steps=2000)
    assert distance_to_optimum(end.u, end.v) > 0.5


def test_first_step_by_hand() -> None:
    u, v = random_embeddings(5, 3, seed=2)
    free = torch.stack([u, v]).requires_grad_()
    (gradient,) = torch.autograd.grad(contrastive_loss(free[0], free[1]), free)
    wanted = normalize(free.detach() - 0.3 * gradient, dim=-1)
    end = descend(contrastive_loss, u, v, learning_rate=0.3, steps=1)
    torch.testing.assert_close(torch.stack([end.u, end.v]), wanted)


def test_rows_stay_on_the_sphere_and_the_start_stays_as_it_is() -> None:
    u, v = random_embeddings(5, 3, seed=2)
    before = u.clone()
    end = descend(contrastive_loss, u, v, steps=10)
    torch.testing.assert_close(torch.linalg.vector_norm(end.u, dim=1), torch.ones(5, dtype=torch.float64))
    assert torch.equal(u, before)


def test_the_two_ways_of_normalising_differ_in_speed_not_in_direction() -> None:
    u, v = random_embeddings(4, 3, seed=3)
    text = descend(contrastive_loss, u, v, learning_rate=1e-4, steps=1)
    code = descend(contrastive_loss, u, v, learning_rate=1e-4, steps=1, normalize="in the loss")
    torch.testing.assert_close(text.u, code.u, atol=1e-7, rtol=0)
    longer = [descend(contrastive_loss, u, v, steps=50, normalize=x).u for x in ("each step", "in the loss")]
    assert (longer[0] - longer[1]).abs().max() > 1e-4


def test_ordered_objective_descends() -> None:
    u, v = random_embeddings(4, 3, seed=4)
    objective = partial(ordered_loss, batch_size=2, k=6, q=1)
    end = descend(objective, u, v, learning_rate=0.1, steps=300)
    assert end.losses[-1] < end.losses[0]


def test_observer_sees_unit_rows_before_each_step() -> None:
    seen = []
    u, v = random_embeddings(4, 3, seed=5)
    descend(contrastive_loss, u, v, steps=3, observe=lambda step, a, b: seen.append((step, a.clone(), b.clone())))
    assert [step for step, _, _ in seen] == [0, 1, 2]
    torch.testing.assert_close(seen[0][1], u)
    torch.testing.assert_close(seen[0][2], v)


def test_start_is_a_function_of_the_seed() -> None:
    assert torch.equal(random_embeddings(4, 3, seed=0)[0], random_embeddings(4, 3, seed=0)[0])
    assert not torch.equal(random_embeddings(4, 3, seed=0)[0], random_embeddings(4, 3, seed=1)[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be finite and above 0; got 0.0"),
        ({"steps": -1}, "steps must be at least 0; got -1"),
        ({"normalize": "never"}, "normalize must be 'each step' or 'in the loss'; got 'never'"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    u, v = random_embeddings(4, 3, seed=0)
    with pytest.raises(ValueError, match=message):
        descend(contrastive_loss, u, v, **settings)  # type: ignore[arg-type]
