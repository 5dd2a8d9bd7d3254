"""The loss of batches that may share samples."""

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

_SCORES_AT_ONCE = 1 << 24


def mean_loss_by_sample(
    u: npt.NDArray[np.float32], v: npt.NDArray[np.float32], batches: npt.NDArray[np.int64], temperature: float
) -> float:
    """The mean over samples of the loss of each, itself a mean over the batches (K, B) that it is in.

    If all samples are in one batch each, it is the mean loss of the batches. Where some are in many, it counts them no
    more than others; those in none it leaves out.
    """
    total, times = np.zeros(len(u)), np.bincount(batches.ravel(), minlength=len(u))
    step = max(1, _SCORES_AT_ONCE // batches.shape[1] ** 2)
    for start in range(0, len(batches), step):
        some = batches[start : start + step]
        scores = np.matmul(u[some], v[some].transpose(0, 2, 1)) / np.float32(temperature)
        own = np.einsum("kii->ki", scores)
        np.add.at(total, some, (logsumexp(scores, axis=2) + logsumexp(scores, axis=1)) / 2 - own)
    return float((total[times > 0] / times[times > 0]).mean())
