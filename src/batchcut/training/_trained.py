"""The model of a run, ready to embed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from batchcut._errors import invalid
from batchcut.data import Pairs, Split

from ._checkpoint import Checkpoint, checkpoint_steps, last_good_checkpoint, load_checkpoint
from ._config import Config
from ._folder import RunFolder
from ._model import Towers, build_model
from ._random import EVALUATION
from ._views import coloured, normalised, views_of

Bytes = npt.NDArray[np.uint8]


def run_config(run: str | Path) -> Config:
    """The settings of a run."""
    return RunFolder(Path(run)).config()


def trained_model(run: str | Path, split: Split, *, step: int | None = None, device: str = "cpu") -> "TrainedModel":
    """The model as a checkpoint of a run has it.

    Args:
        run: the folder of the run.
        split: its data, which say how wide features are.
        step: which checkpoint; None: the last one that is whole.
        device: where the model works.
    """
    folder = RunFolder(Path(run))
    config, checkpoint = folder.config(), _checkpoint(folder.checkpoints, step)
    train = split.train
    inputs = (int(train.u.shape[1]), int(train.v.shape[1])) if isinstance(train, Pairs) else None
    towers = build_model(config.model, seed=config.seed, inputs=inputs)
    weights = {key.removeprefix("model."): x for key, x in checkpoint.tensors.items() if key.startswith("model.")}
    try:
        towers.load_state_dict(weights)
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
        images = torch.from_numpy(pixels).to(self.device)
        draw = views_of(self.config.views)
        x, y = draw(torch.cat([images, images]), EVALUATION, self.config.seed, *numbers).chunk(2)
        u, v = self.towers(x, y)
        return u, v

    @torch.no_grad()
    def pairs(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Embeddings u, v: (n, dim) of the two sides of features."""
        x, y = (torch.from_numpy(np.asarray(side, np.float32)).to(self.device) for side in (pairs.u, pairs.v))
        u, v = self.towers(x, y)
        return u, v

    @torch.no_grad()
    def features(self, pixels: Bytes, *, batch_size: int) -> Tensor:
        """(N, f) what the encoder gives for images (N, C, H, W) as they are, without the head; on the CPU."""
        side, parts = self.config.views.size, []
        for start in range(0, len(pixels), batch_size):
            images = coloured(torch.from_numpy(pixels[start : start + batch_size]).to(self.device))
            if side is not None:
                images = F.interpolate(images, (side, side), mode="bilinear", align_corners=False, antialias=True)
            parts.append(self.towers.left.encoder(normalised(images)).float().cpu())
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
