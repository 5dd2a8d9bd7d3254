"""Residual networks with torchvision's key names."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn


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
        _initialise(self, zero_init=zero_init)

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


def _initialise(network: ResNet, *, zero_init: bool) -> None:
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
        elif zero_init and isinstance(part, BasicBlock):
            nn.init.zeros_(part.bn2.weight)
