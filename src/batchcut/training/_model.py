"""From samples to embeddings: encoders, the projection head, one tower or two."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from batchcut._errors import invalid
from batchcut._random import Stream

from ._config import IMAGE_ENCODERS, ModelSettings
from ._random import key


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
    if (inputs is None) != settings.for_images:
        wanted = ", ".join(map(repr, IMAGE_ENCODERS)) if inputs is None else "'mlp' or 'linear'"
        raise invalid(
            "model.encoder",
            f"be one of {wanted} for {'images' if inputs is None else 'features'}",
            repr(settings.encoder),
        )
    left, right = (0, 0) if inputs is None else inputs
    if not settings.two_towers and left != right:
        raise invalid("model.two_towers", f"be true where the sides are {left} and {right} wide", settings.two_towers)
    with torch.random.fork_rng([]):
        torch.manual_seed(key(Stream.WEIGHTS, seed))
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


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Maps x: (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        branch = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(branch + (x if self.downsample is None else self.downsample(x)), inplace=True)


class ResNet(nn.Module):
    """A residual network without its last layer: images (n, 3, h, w) to features (n, features).

    Args:
        widths: of the stages; each but the first halves the resolution.
        blocks: how many each stage has.
        stem: "imagenet" begins with a 7×7 convolution of stride 2 and a pooling of stride 2, "cifar" with a 3×3
            convolution of stride 1, "small" with one of stride 2.
        zero_init: start each residual branch with zeros.
    """

    def __init__(
        self, widths: tuple[int, ...], blocks: int, *, stem: Literal["imagenet", "cifar", "small"], zero_init: bool
    ) -> None:
        super().__init__()
        kernel, stride, padding = {"imagenet": (7, 2, 3), "cifar": (3, 1, 1), "small": (3, 2, 1)}[stem]
        self.conv1 = nn.Conv2d(3, widths[0], kernel, stride, padding, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool: nn.Module = nn.MaxPool2d(3, 2, 1) if stem == "imagenet" else nn.Identity()
        self.stages = len(widths)
        for place, (inputs, outputs) in enumerate(zip((widths[0], *widths), widths, strict=False)):
            first = BasicBlock(inputs, outputs, 1 if place == 0 else 2)
            rest = (BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1))
            self.add_module(f"layer{place + 1}", nn.Sequential(first, *rest))
        self.features = widths[-1]
        _initialize(self, zero_init=zero_init)

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, features) of images x: (n, 3, h, w)."""
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        for stage in range(self.stages):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return x.mean(dim=(2, 3))


def resnet18(*, stem: Literal["imagenet", "cifar"] = "imagenet", zero_init: bool = False) -> ResNet:
    """ResNet-18; its state loads torchvision's weights but for `fc`, where the stem is ImageNet's."""
    return ResNet((64, 128, 256, 512), 2, stem=stem, zero_init=zero_init)


def small_resnet(*, width: int = 32, zero_init: bool = False) -> ResNet:
    """A residual network of three stages with a block each, for small images on a CPU."""
    return ResNet((width, 2 * width, 4 * width), 1, stem="small", zero_init=zero_init)


def _initialize(network: ResNet, *, zero_init: bool) -> None:
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
        elif zero_init and isinstance(part, BasicBlock):
            nn.init.zeros_(part.bn2.weight)
