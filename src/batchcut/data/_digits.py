"""`digits`: 1,797 hand-written digits of 8 × 8 pixels, which scikit-learn carries along."""

import numpy as np

from ._records import Images, Split
from ._split import split_images

_BRIGHTEST = 16


def load_digits(*, seed: int) -> Split:
    """The digits, split at random by the seed; their grey values 0 to 16 become 0 to 255."""
    from sklearn.datasets import load_digits as embedded

    grey, labels = embedded(return_X_y=True)
    pixels = np.rint(grey * (255 / _BRIGHTEST)).astype(np.uint8).reshape(-1, 1, 8, 8)
    return split_images(Images("digits", pixels, labels.astype(np.int64)), seed=seed)
