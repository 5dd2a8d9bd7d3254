"""The variants of `images.py`: what a batch sees beside itself, how it is planned, and what its norms divide by."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from batchcut._random import Stream, generator
from batchcut.losses import Background, nt_xent
from batchcut.selection import Cut, Request, Selector
from batchcut.training._data import ImageSource, Indices, normalized, to_rgb
from batchcut.training._trainer import Trainer

NO_BOUND = 1 - 1e-6
"""A share that never binds: each further negative has the largest weight."""

_LARGEST_SCALE, _LARGEST_SHIFT, _MOMENTUM, _WARM_UP = 3.0, 5.0, 0.01, 320
_DECAY = 0.99  # of the average of weights: it lags by a third of an epoch

Views = tuple[Tensor, Tensor]


class Explored(Trainer):
    """The loop of `batchcut train` for SimCLR, in which what a batch sees and what is recorded can be changed."""

    def _loss(self, index: Indices) -> Tensor:
        samples = torch.from_numpy(index)
        views = self._sides(Stream.VIEWS, index, self.position)
        u, v = self.model(*views)
        loss = nt_xent(u, v, temperature=self.config.objective.temperature, background=self.beside(samples))
        if self.batches.records:
            self.batches.record(samples, *self.recorded(views, u.detach(), v.detach()))
        return loss

    def beside(self, samples: Tensor) -> Background | None:
        """What the batch of these samples sees beside itself: what the library draws, if anything."""
        return self.batches.sampler.background_of(samples, step=self.position)

    def recorded(self, views: Views, u: Tensor, v: Tensor) -> Views:  # noqa: ARG002
        """What is recorded of embeddings u: (b, dim) and v: (b, dim) of these views."""
        return u, v

    def others(self, count: int) -> Indices:
        """So many random samples, a function of seed, epoch and step."""
        random = generator(Stream.BACKGROUND, self.config.seed, self.epoch, self.position)
        return random.integers(len(self.train_set), size=count)

    @classmethod
    def of(cls, **settings: Any) -> Callable[..., Self]:
        """The class with settings of its own."""
        return partial(cls, **settings)


class FreshNegatives(Explored):
    """Each batch sees random other samples, embedded by the model as it is, without gradient.

    Args:
        arguments: those of a `Trainer`.
        count: how many samples, with two views each.
        share: of the negatives' mass, at most; None: each counts as one negative of the batch.
    """

    def __init__(self, *arguments: Any, count: int, share: float | None = None) -> None:
        super().__init__(*arguments)
        self.count, self.share = count, share

    def beside(self, samples: Tensor) -> Background:
        """Fresh embeddings; those of samples of the batch do not count."""
        chosen = self.others(self.count)
        with torch.no_grad():
            u, v = self.bare_model(*self._sides(Stream.PASS, chosen, self.position))
        live = ~torch.isin(torch.from_numpy(chosen), samples)
        share, weight = (NO_BOUND, 1.0) if self.share is None else (self.share, len(self.train_set) / self.count)
        return Background(u=u, v=v, share=share, largest_weight=weight, live=live)


class TrainedNegatives(Explored):
    """Each batch sees random other samples with gradient: a larger batch, of which the first B are anchors."""

    def __init__(self, *arguments: Any, count: int) -> None:
        super().__init__(*arguments)
        self.count = count

    def _loss(self, index: Indices) -> Tensor:
        more = np.setdiff1d(self.others(self.count), index)
        u, v = self.model(*self._sides(Stream.VIEWS, np.concatenate([index, more]), self.position))
        anchors = len(index)
        if self.batches.records:
            self.batches.record(torch.from_numpy(index), u[:anchors].detach(), v[:anchors].detach())
        return anchors_loss(u, v, anchors, self.config.objective.temperature)


def anchors_loss(u: Tensor, v: Tensor, anchors: int, temperature: float) -> Tensor:
    """SimCLR's loss of the first so many of the samples with unit rows u, v: (n, d), among all of them."""
    views, count = torch.cat([u, v]), len(u)
    rows = torch.cat([torch.arange(anchors), count + torch.arange(anchors)])
    own = torch.arange(2 * count) == rows[:, None]
    logits = (views[rows] @ views.T / temperature).masked_fill(own, -torch.inf)
    return cross_entropy(logits, (rows + count) % (2 * count))


class FromFeatures(Explored):
    """Plans by the encoder's features before the projection head, less their mean."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.bare_model.left.encoder.register_forward_hook(self._keep_features)

    def _keep_features(self, _module: nn.Module, _inputs: object, features: Tensor) -> None:
        self.features = features.detach()

    def recorded(self, views: Views, u: Tensor, v: Tensor) -> Views:  # noqa: ARG002
        """The features of both views, with zeros up to the width of the bank."""
        u, v = pad(self.features, (0, u.shape[1] - self.features.shape[1])).chunk(2)
        return u, v

    def _plan(self) -> list[Indices]:
        bank = self.batches.bank
        if bank.clock:
            mean = (bank.u[bank.seen].mean(dim=0) + bank.v[bank.seen].mean(dim=0)) / 2
            bank.u[bank.seen] -= mean
            bank.v[bank.seen] -= mean
        return super()._plan()


class FromAverage(Explored):
    """Plans by what a moving average of the weights makes of the views that are trained on."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.average = AveragedModel(self.bare_model, multi_avg_fn=get_ema_multi_avg_fn(_DECAY))

    def recorded(self, views: Views, u: Tensor, v: Tensor) -> Views:
        """The embeddings by the average, after the steps so far."""
        self.average.update_parameters(self.bare_model)
        with torch.no_grad():
            u, v = self.average(*views)
        return u, v


class FromWholeImages(Explored):
    """A pass before a plan sees each image as it is, and mirrored, instead of two random views."""

    def _sides(self, stream: Stream, index: Indices, place: int) -> Views:
        if stream is not Stream.PASS:
            return super()._sides(stream, index, place)
        assert isinstance(self.train_set, ImageSource)
        images = normalized(to_rgb(torch.from_numpy(self.train_set.pixels[index])))
        return images, images.flip(-1)


@dataclass(frozen=True, kw_only=True)
class InGroups(Selector):
    """Batches of groups that `Cut` plans, which meet at random, and of random samples.

    Attributes:
        size: of a group.
        planned: the share of each batch that is planned.
    """

    size: int = 16
    planned: float = 1.0
    margin: float | None = 0.05

    def choose(self, request: Request) -> Indices:
        """Random samples are planned as batches of the size of a group; the others fill up."""
        random = request.generator()
        order = random.permutation(request.used)
        chosen, rest = np.split(order, [round(self.planned * len(order))])
        u, v = request.pairs.u[chosen], request.pairs.v[chosen]
        how: dict[str, Any] = {"seed": request.seed, "epoch": request.epoch}
        how["temperature"] = request.weighting.temperature
        groups = chosen[Cut(margin=self.margin)(u, v, batch_size=self.size, **how).batches]
        hard = random.permutation(groups).reshape(request.batch_count, -1)
        return np.hstack([hard, rest.reshape(request.batch_count, -1)])


def by_groups(size: int, *, planned: float) -> dict[str, str]:
    """The settings that ask for `InGroups`."""
    name = "selection.selector."
    return {name + "method": f"{__name__}:InGroups", name + "size": str(size), name + "planned": str(planned)}


def by_running_statistics(model: nn.Module) -> None:
    """Puts `Renorm` in the place of batch norm."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(parent, name, Renorm(child.num_features, affine=child.affine, momentum=_MOMENTUM))


class Renorm(_BatchNorm):
    """Batch norm whose output is, but for the gradient, that of running means and variances (Ioffe 2017).

    With a batch's own mean and deviation m, s and the running ones M, S it gives ((x − m) / s · r + d), where r = s / S
    and d = (m − M) / S are bounded and have no gradient. So an embedding does not depend on what else is in the batch.
    The first steps, in which M and S become known, are plain batch norm.
    """

    steps = 0

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        """Any number of dimensions will do."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """As batch norm in evaluation, and where statistics are estimated anew."""
        if not self.training or self.momentum is None or self.running_mean is None or self.running_var is None:
            return super().forward(input)
        self.steps += 1
        if self.steps <= _WARM_UP:
            return super().forward(input)
        with torch.no_grad():
            apart = [0, *range(2, input.ndim)]
            own, known = (input.var(apart, correction=0) + self.eps).sqrt(), (self.running_var + self.eps).sqrt()
            scale = (own / known).clamp(1 / _LARGEST_SCALE, _LARGEST_SCALE)
            shift = ((input.mean(apart) - self.running_mean) / known).clamp(-_LARGEST_SHIFT, _LARGEST_SHIFT)
            form = (1, -1) + (1,) * (input.ndim - 2)
        normal = super().forward(input)
        if not self.affine:
            return normal * scale.view(form) + shift.view(form)
        kept = (self.weight * shift + (1 - scale) * self.bias).view(form)
        return normal * scale.view(form) + kept


def as_it_is(model: nn.Module) -> None:
    """Leaves a model alone."""
