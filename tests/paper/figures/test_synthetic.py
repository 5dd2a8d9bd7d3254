import math

import pytest
import torch

from batchcut.losses.paper import contrastive_loss
from batchcut.paper.figures._synthetic import (
    METHODS,
    OSGD,
    OSGD_TEXT,
    chosen_batches,
    courses,
    descend_by,
    descend_to_rest,
    losses_to_compare,
)
from batchcut.theory import all_batches, distance_to_optimum, random_embeddings, simplex_etf


def test_losses_are_means_over_their_batches() -> None:
    u, v = random_embeddings(4, 3, seed=1)
    losses = losses_to_compare(4)
    of_batches = {batch: float(contrastive_loss(u[list(batch)], v[list(batch)])) for batch in all_batches(4, 2)}
    assert float(losses["full"](u, v)) == pytest.approx(float(contrastive_loss(u, v)))
    assert float(losses["all"](u, v)) == pytest.approx(sum(of_batches.values()) / 6)
    assert float(losses["sub"](u, v)) == pytest.approx((of_batches[0, 1] + of_batches[2, 3]) / 2)


@pytest.mark.parametrize("normalize", ["each step", "in the loss"])
def test_rest_at_the_optimum(normalize: str) -> None:
    u, v = random_embeddings(4, 8, seed=0)
    end = descend_to_rest(contrastive_loss, u, v, normalize=normalize, most_steps=2000)  # type: ignore[arg-type]
    assert end.distance is not None
    assert end.distance < 1e-3
    assert end.steps == 500
    assert end.distance == pytest.approx(distance_to_optimum(end.u, end.v))


def test_rest_where_the_loss_falls_no_more() -> None:
    u, v = random_embeddings(4, 8, seed=0)
    end = descend_to_rest(losses_to_compare(4)["sub"], u, v, normalize="each step", most_steps=20_000)
    assert end.steps < 20_000
    assert end.distance is not None
    assert end.distance > 0.1
    assert (end.u[[0, 2]] * end.v[[1, 3]]).sum(dim=1).tolist() == pytest.approx([-1, -1], abs=1e-3)


def test_rest_after_the_most_steps() -> None:
    u, v = random_embeddings(8, 4, seed=0)
    end = descend_to_rest(losses_to_compare(8)["all"], u, v, normalize="each step", most_steps=20)
    assert end.steps == 20
    assert (
        descend_to_rest(contrastive_loss, u, v, normalize="each step", most_steps=1, optimum_known=False).distance
        is None
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_partition_is_used_up_before_the_next_is_planned(method: str) -> None:
    u, v = random_embeddings(4, 3, seed=2)
    u, v = u.requires_grad_(), v.requires_grad_()
    loss = chosen_batches(method, 4, seed=5)
    touched = []
    for _ in range(2):
        (gradient,) = torch.autograd.grad(loss(u, v), u)
        touched.append({int(row) for row in gradient.norm(dim=1).nonzero()})
    assert all(len(rows) == 2 for rows in touched)
    if method not in (OSGD, OSGD_TEXT):
        assert touched[0] | touched[1] == {0, 1, 2, 3}
    if method == OSGD:
        u, v = u.detach(), v.detach()
        worst = max(float(contrastive_loss(u[list(batch)], v[list(batch)])) for batch in all_batches(4, 2))
        assert float(chosen_batches(method, 4, seed=5)(u, v)) == pytest.approx(worst)


def test_course_begins_at_the_start_and_has_every_so_many_steps() -> None:
    course = descend_by("SGD", 4, 8, normalize="each step", seed=3, steps=10, every=5)
    start = distance_to_optimum(*random_embeddings(4, 8, seed=3))
    assert len(course.distances) == 3
    assert course.distances[0] == pytest.approx(start, abs=1e-6)
    assert -1 <= course.aligned <= 1
    etf = simplex_etf(4, 8)
    assert math.isclose(distance_to_optimum(etf, etf), 0, abs_tol=1e-12)


def test_courses_report_progress() -> None:
    seen: list[float] = []
    found = courses(4, 8, seeds=[0], steps=2, every=1, progress=seen.append)
    assert set(found) == {"each step", "in the loss"}
    assert set(found["each step"]) == set(METHODS)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


@pytest.mark.slow
def test_courses_are_the_same_on_two_processes() -> None:
    settings = {"seeds": [0, 1], "steps": 3, "every": 1, "progress": lambda share: None}
    assert courses(4, 2, **settings, processes=2) == courses(4, 2, **settings)  # type: ignore[arg-type]
