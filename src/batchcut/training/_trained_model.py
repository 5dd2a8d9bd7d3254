"""The model of a run, ready to embed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from batchcut._errors import invalid
from batchcut._random import Stream
from batchcut.data import Pairs, Split

from ._checkpoint import Checkpoint, checkpoint_steps, last_good_checkpoint, load_checkpoint, of_prefix
from ._config import Config
from ._data import ImageSource, PairSource, normalized, sources, to_rgb
from ._folder import RunFolder
from ._model import Towers, build_model
from ._score import embed

Bytes = npt.NDArray[np.uint8]


def run_config(run: str | Path) -> Config:
    """The settings of a run."""
    return RunFolder(Path(run)).config()


def trained_model(
    run: str | Path, split: Split | None = None, *, step: int | None = None, device: str = "cpu"
) -> "TrainedModel":
    """The model as a checkpoint of a run has it.

    Args:
        run: the folder of the run.
        split: its data, which say how wide features are; images need none.
        step: which checkpoint; None: the last one that is whole.
        device: where the model works.
    """
    folder = RunFolder(Path(run))
    config, checkpoint = folder.config(), _checkpoint(folder.checkpoints, step)
    if split is None and not config.model.for_images:
        raise invalid("split", "be given where a run learnt from features", split)
    inputs = None if split is None else sources(split, config.data, config.views)[0].inputs
    towers = build_model(config.model, seed=config.seed, inputs=inputs)
    try:
        towers.load_state_dict(of_prefix("model", checkpoint.tensors))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"the checkpoint of {run} must fit its config.toml; got {reason}") from error
    place = _device(device)
    return TrainedModel(towers=towers.eval().to(place), config=config, step=checkpoint.step, device=place)


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """Embeds samples as the run itself did when it scored.

    Attributes:
        towers: the model, in evaluation mode.
        config: the settings of its run.
        step: how many steps it has learnt for.
        device: where it works.
    """

    towers: Towers
    config: Config
    step: int
    device: torch.device

    @torch.no_grad()
    def views(self, pixels: Bytes, numbers: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Embeddings u, v: (n, dim) of two views of images (n, C, H, W), a function of them and the numbers."""
        source = ImageSource(pixels, self.config.views)
        everything = np.arange(len(source))
        u, v = self.towers(*source.sides(everything, self.device, Stream.EVALUATION, self.config.seed, *numbers))
        return u, v

    def embed(self, pixels: Bytes, *, batch_size: int) -> tuple[Tensor, Tensor]:
        """The same for any number of images, so many at once, with the place of the first in the set as its number."""
        source = ImageSource(pixels, self.config.views)
        numbers = (Stream.EVALUATION, self.config.seed)
        return embed(self.towers, source, np.arange(len(source)), self.device, *numbers, batch_size=batch_size)

    @torch.no_grad()
    def pairs(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Embeddings u, v: (n, dim) of the two sides of features."""
        u, v = self.towers(*PairSource(pairs.u, pairs.v).sides(np.arange(len(pairs)), self.device))
        return u, v

    @torch.no_grad()
    def features(self, pixels: Bytes, *, batch_size: int) -> Tensor:
        """(N, f) what the encoder gives for images (N, C, H, W) as they are, without the head; on the CPU."""
        side, parts = self.config.views.size, []
        for start in range(0, len(pixels), batch_size):
            images = to_rgb(torch.from_numpy(pixels[start : start + batch_size]).to(self.device))
            if side is not None:
                images = F.interpolate(images, (side, side), mode="bilinear", align_corners=False, antialias=True)
            parts.append(self.towers.left.encoder(normalized(images)).float().cpu())
        return torch.cat(parts)


def _device(name: str) -> torch.device:
    """The device of that name, tried."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise invalid("device", "be cpu, cuda, cuda:1, mps or the like", repr(name)) from error
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch asserts that it was built for it
        raise invalid("device", "be one that is here and that torch is built for", repr(name)) from error
    return device


def _checkpoint(folder: Path, step: int | None) -> Checkpoint:
    if step is None:
        return last_good_checkpoint(folder)
    if step not in checkpoint_steps(folder):
        there = ", ".join(map(str, checkpoint_steps(folder))) or "none"
        raise invalid("step", f"be that of a checkpoint ({there})", step)
    return load_checkpoint(folder, step)
