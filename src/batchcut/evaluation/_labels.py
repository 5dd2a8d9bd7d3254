"""How well embeddings tell classes apart: nearest neighbours, and a linear map."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_integer, check_positive, invalid, wrong_type

from ._embeddings import Floats, unit_rows

Ints = npt.NDArray[np.int64]

_TILE = 1024


class Probe(NamedTuple):
    """What came out of a linear probe: the share of right answers, and whether the fit came to its end."""

    accuracy: float
    converged: bool


def knn_accuracy(
    train: object,
    train_labels: object,
    test: object,
    test_labels: object,
    *,
    neighbors: int = 20,
    temperature: float = 0.07,
) -> float:
    """The share of test: (M, d) whose class is that of their neighbours in train: (N, d), by cosine similarity s.

    Each of the `neighbors` nearest, or all N where they are fewer, has exp(s / τ) votes for its class. Of classes
    with as many votes, the one with the smallest number wins. Memory is a tile of 1,024 test rows times N.
    """
    wanted = check_integer("neighbors", neighbors, at_least=1)
    tau = check_positive("temperature", temperature)
    known, labels, rows, truth = _checked(train, train_labels, test, test_labels)
    classes, codes = np.unique(labels, return_inverse=True)
    right = 0
    for start in range(0, len(rows), _TILE):
        similarity = rows[start : start + _TILE] @ known.T
        count = min(wanted, len(known))
        nearest = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
        closeness = np.take_along_axis(similarity, nearest, axis=1)
        votes = np.zeros((len(similarity), len(classes)))
        np.add.at(votes, (np.arange(len(votes))[:, None], codes[nearest]), np.exp((closeness - 1) / tau))
        right += int((classes[votes.argmax(axis=1)] == truth[start : start + _TILE]).sum())
    return right / len(rows)


def linear_probe(
    train: object, train_labels: object, test: object, test_labels: object, *, strength: float = 1.0, steps: int = 500
) -> Probe:
    """The share of test: (M, d) that logistic regression, fitted on train: (N, d), puts in the right class.

    Rows are divided by their norm, then each column is shifted and scaled to mean 0 and deviation 1 on the training
    part. The fit minimises Σ log-loss + ‖W‖² / (2 · strength) by at most `steps` steps of L-BFGS.
    """
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    check_positive("strength", strength)
    check_integer("steps", steps, at_least=1)
    known, labels, rows, truth = _checked(train, train_labels, test, test_labels)
    if len(np.unique(labels)) < 2:
        raise invalid("train_labels", "hold at least 2 classes", 1)
    mean, spread = known.mean(axis=0), known.std(axis=0)
    spread = np.where(spread > 0, spread, 1)
    model = LogisticRegression(C=strength, max_iter=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit((known - mean) / spread, labels)
    accuracy = float((model.predict((rows - mean) / spread) == truth).mean())
    return Probe(accuracy, converged=bool(model.n_iter_.max() < steps))


def _checked(
    train: object, train_labels: object, test: object, test_labels: object
) -> tuple[Floats, Ints, Floats, Ints]:
    known, rows = unit_rows("train", train), unit_rows("test", test)
    if known.shape[1] != rows.shape[1]:
        raise invalid("test", f"be as wide as train, {known.shape[1]}", rows.shape[1])
    labels, truth = _labels("train_labels", train_labels, len(known)), _labels("test_labels", test_labels, len(rows))
    return known, labels, rows, truth


def _labels(argument: str, values: object, count: int) -> Ints:
    labels = np.asarray(values)
    if labels.dtype.kind not in "iu":
        raise wrong_type(argument, "hold integers", labels.dtype.type(0))
    if labels.shape != (count,):
        raise invalid(argument, f"hold one class for each of the {count} rows", f"shape {labels.shape}")
    return labels.astype(np.int64)
