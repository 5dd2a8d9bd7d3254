"""An encoder as a checkpoint has it, and what it makes of images."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from batchcut.data import Images
    from batchcut.training import Config

AT_ONCE = 250


class Encoder:
    """The model of a run after so many steps, in evaluation mode.

    Args:
        folder: the run.
        config: its settings.
        step: of which checkpoint; the last if left out.
    """

    def __init__(self, folder: Path, config: "Config", step: int | None = None) -> None:
        from batchcut.training._checkpoint import last_good_checkpoint, load_checkpoint
        from batchcut.training._model import build_model
        from batchcut.training._views import views_of

        place = folder / "checkpoints"
        checkpoint = last_good_checkpoint(place) if step is None else load_checkpoint(place, step)
        weights = {
            name.removeprefix("model."): value
            for name, value in checkpoint.tensors.items()
            if name.startswith("model.")
        }
        self.model = build_model(config.model, seed=config.seed, inputs=None)
        self.model.load_state_dict(weights)
        self.model.eval()
        self.views, self.seed = views_of(config.views), config.seed

    def __call__(self, pixels: npt.NDArray[np.uint8], numbers: tuple[int, ...]) -> "tuple[Tensor, Tensor]":
        """Embeddings u, v: (n, d) of two random views of pixels: (n, C, H, W); a function of the numbers."""
        import torch

        from batchcut.training._random import EVALUATION

        with torch.no_grad():
            images = torch.from_numpy(np.ascontiguousarray(pixels))
            x, y = self.views(torch.cat([images, images]), EVALUATION, self.seed, *numbers).chunk(2)
            u, v = self.model(x, y)
            return u, v

    def embed(self, pixels: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The same for any number of images, as arrays."""
        parts = [self(pixels[start : start + AT_ONCE], (start,)) for start in range(0, len(pixels), AT_ONCE)]
        u, v = (np.concatenate([part.numpy() for part in side]) for side in zip(*parts, strict=True))
        return u, v


def images_of(config: "Config", part: str, most: int | None) -> "Images":
    """The first images of a part, "train" or "test", of the set that a run used."""
    from batchcut.data import Images, load

    root = None if config.data.root is None else Path(config.data.root)
    images = getattr(load(config.data.name, root=root), part)
    if not isinstance(images, Images):
        raise TypeError(f"data.name must name a set of images; got {config.data.name}")
    return Images(images.name, images.pixels[:most], None)
