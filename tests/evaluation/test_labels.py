import numpy as np
import numpy.typing as npt
import pytest
import torch

from batchcut.evaluation import knn_accuracy, linear_probe

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def clouds(count: int, seed: int, *, noise: float = 0.6) -> tuple[Doubles, Ints]:
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).standard_normal((4, 5))
    labels = rng.integers(0, 4, count)
    return centers[labels] + noise * rng.standard_normal((count, 5)), 3 * labels


def slow_knn(train: Doubles, labels: Ints, test: Doubles, truth: Ints, k: int, temperature: float) -> float:
    train, test = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, test))
    right = 0
    for row, answer in zip(test, truth, strict=True):
        similarity = train @ row
        votes: dict[int, float] = {}
        for near in np.argsort(-similarity)[:k]:
            votes[int(labels[near])] = votes.get(int(labels[near]), 0) + np.exp(similarity[near] / temperature)
        right += max(votes, key=votes.__getitem__) == answer
    return right / len(test)


@pytest.mark.parametrize(("neighbors", "temperature"), [(1, 0.07), (5, 0.07), (20, 1.0), (1000, 0.07)])
def test_neighbours_against_the_slow_way(neighbors: int, temperature: float) -> None:
    train, test = clouds(80, 0, noise=1.0), clouds(50, 1, noise=1.0)
    found = knn_accuracy(*train, *test, neighbors=neighbors, temperature=temperature)
    assert found == slow_knn(*train, *test, neighbors, temperature)
    assert found < 1


def test_neighbours_in_many_tiles() -> None:
    train, test = clouds(50, 0), clouds(1500, 1)
    assert knn_accuracy(*train, *test) == pytest.approx(slow_knn(*train, *test, 20, 0.07))


def test_the_probe_learns_what_is_linear() -> None:
    train, test = clouds(300, 0, noise=0.3), clouds(200, 1, noise=0.3)
    found = linear_probe(torch.from_numpy(train[0]), train[1], test[0], test[1])
    assert found.accuracy > 0.9
    assert found.converged
    shuffled = np.random.default_rng(0).permutation(train[1])
    assert linear_probe(train[0], shuffled, *test).accuracy < 0.5


def test_a_fit_that_is_stopped_says_so() -> None:
    assert not linear_probe(*clouds(300, 0), *clouds(20, 1), steps=2, strength=100).converged


def test_columns_that_never_change_do_no_harm() -> None:
    train, labels = clouds(50, 0)
    flat = np.column_stack([train, np.zeros(len(train))])
    assert linear_probe(flat, labels, flat, labels).accuracy == linear_probe(train, labels, train, labels).accuracy


@pytest.mark.parametrize("judge", [knn_accuracy, linear_probe])
def test_bad_input(judge: "object") -> None:
    train, labels = clouds(20, 0)
    with pytest.raises(ValueError, match="test must be as wide as train, 5; got 4"):
        judge(train, labels, train[:, :4], labels)  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"train_labels must hold one class for each of the 20 rows; got shape \(3,\)"):
        judge(train, labels[:3], train, labels)  # type: ignore[operator]
    with pytest.raises(TypeError, match="test_labels must hold integers; got float64"):
        judge(train, labels, train, labels / 2)  # type: ignore[operator]


def test_one_class_is_too_few() -> None:
    train, labels = clouds(20, 0)
    with pytest.raises(ValueError, match="train_labels must hold at least 2 classes; got 1"):
        linear_probe(train, 0 * labels, train, labels)
