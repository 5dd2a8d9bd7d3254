"""What the corruptions work on: images (n, H, W, C) from 0 to 1, with a generator for each."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]
Generators = Sequence[np.random.Generator]
