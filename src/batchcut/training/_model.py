"""From samples to embeddings: encoders, the projection head, one tower or two."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from batchcut._errors import invalid

from ._random import WEIGHTS, key
from ._resnet import resnet18, small_resnet
from ._settings import ModelSettings

_FOR_IMAGES = ("small-resnet", "resnet18")


class Tower(nn.Module):
    """An encoder and its head: samples to embeddings (n, dim) of unit length."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Unit embeddings (n, dim) of x."""
        return F.normalize(self.head(self.encoder(x)).float(), dim=1)


class Towers(nn.Module):
    """Embeds the two sides of pairs, by one tower or by one for each side."""

    def __init__(self, left: Tower, right: Tower | None) -> None:
        super().__init__()
        self.left = left
        self.right = right

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Unit embeddings u, v: (n, dim) of the two sides; a shared tower sees both in one batch."""
        if self.right is None:
            u, v = self.left(torch.cat([x, y])).chunk(2)
            return u, v
        return self.left(x), self.right(y)


def build_model(settings: ModelSettings, *, seed: int, inputs: tuple[int, int] | None) -> Towers:
    """A new model; a function of the seed.

    Args:
        settings: what to build.
        seed: of the first weights.
        inputs: the widths of the two sides' features; None for images.
    """
    if (inputs is None) != (settings.encoder in _FOR_IMAGES):
        wanted = ", ".join(map(repr, _FOR_IMAGES)) if inputs is None else "'mlp' or 'linear'"
        raise invalid(
            "model.encoder",
            f"be one of {wanted} for {'images' if inputs is None else 'features'}",
            repr(settings.encoder),
        )
    left, right = (0, 0) if inputs is None else inputs
    if not settings.two_towers and left != right:
        raise invalid("model.two_towers", f"be true where the sides are {left} and {right} wide", settings.two_towers)
    with torch.random.fork_rng([]):
        torch.manual_seed(key(WEIGHTS, seed))
        return Towers(_tower(settings, left), _tower(settings, right) if settings.two_towers else None)


def _tower(settings: ModelSettings, inputs: int) -> Tower:
    encoder: nn.Module
    if settings.encoder == "resnet18":
        encoder, features = resnet18(stem=settings.stem, zero_init=settings.zero_init), 512
    elif settings.encoder == "small-resnet":
        encoder = small_resnet(width=settings.width, zero_init=settings.zero_init)
        features = 4 * settings.width
    elif settings.encoder == "mlp":
        features = settings.width
        encoder = nn.Sequential(nn.Linear(inputs, features), nn.ReLU(inplace=True))
    else:
        encoder, features = nn.Identity(), inputs
    return Tower(encoder, _head(features, settings.projection, settings.dim))


def _head(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """The projection head: two layers with batch norm, the last without scale and shift; or one layer."""
    if hidden == 0:
        return nn.Linear(inputs, outputs)
    return nn.Sequential(
        nn.Linear(inputs, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, outputs, bias=False),
        nn.BatchNorm1d(outputs, affine=False),
    )
