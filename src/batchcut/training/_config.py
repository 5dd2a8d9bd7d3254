"""The settings of a run: nested frozen records, each of which says what it takes."""

import math
from dataclasses import dataclass, field, is_dataclass
from typing import Literal, get_args

from batchcut._errors import (
    check_at_least_zero,
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    check_share,
    invalid,
    wrong_type,
)
from batchcut.data import check_name
from batchcut.selection import Cut, Selector, check_temperature

ViewRecipe = Literal["fast", "paper"]
EncoderName = Literal["small-resnet", "resnet18", "mlp", "linear"]
IMAGE_ENCODERS = ("small-resnet", "resnet18")
Stem = Literal["cifar", "imagenet"]
Loss = Literal["simclr", "sogclr", "infonce"]
PlannedFrom = Literal["bank", "pass", "training-pass"]
OptimizerName = Literal["lars", "sgd", "adamw"]
Precision = Literal["32-true", "bf16-mixed", "16-mixed"]

# What no machine of today has the memory or the time for is refused by its name.
_WIDEST = 1 << 20
_LARGEST_VIEW = 1 << 14
_MOST_DRAWS = 10_000


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What to learn from.

    Attributes:
        name: as `batchcut.data.load` takes it: "digits", "functions", "folder:PATH", "pairs:FILE" and so on.
        root: the folder with the official files; None: the usual place.
        download: fetch what is missing from the official address.
        train: use the first so many training samples; None: all.
        test: use the first so many test samples; None: all.
    """

    name: str = "digits"
    root: str | None = None
    download: bool = False
    train: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        check_name("data.name", self.name)
        _check_optional("data.train", self.train, at_least=4)
        _check_optional("data.test", self.test, at_least=2)


@dataclass(frozen=True, kw_only=True)
class ViewSettings:
    """How two views are made of an image; features are taken as they are.

    Attributes:
        recipe: "paper" is the authors' by Kornia (crop, flip, jitter, grey, blur); "fast" is the same but for the blur,
            with all colour changes of an image in one linear map.
        size: height and width of a view; None: those of the image.
        smallest_crop: the least share of the image's area that a crop keeps.
    """

    recipe: ViewRecipe = "fast"
    size: int | None = None
    smallest_crop: float = 0.08

    def __post_init__(self) -> None:
        check_choice("views.recipe", self.recipe, get_args(ViewRecipe))
        _check_optional("views.size", self.size, at_least=1, at_most=_LARGEST_VIEW)
        check_positive("views.smallest_crop", self.smallest_crop, at_most=1)


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What makes an embedding of a sample.

    Attributes:
        encoder: "small-resnet" and "resnet18" for images, "mlp" and "linear" for features.
        stem: how a ResNet-18 begins: "cifar" keeps the resolution, "imagenet" divides it by four.
        width: of the first stage of a small ResNet, or of the hidden layer of an MLP.
        two_towers: one encoder for each side of a pair, as in CLIP; otherwise both sides share one, as in SimCLR.
        projection: the hidden width of the projection head; 0: no head.
        dim: of the embedding.
        zero_init: start with residual branches that add nothing.
    """

    encoder: EncoderName = "small-resnet"
    stem: Stem = "cifar"
    width: int = 32
    two_towers: bool = False
    projection: int = 256
    dim: int = 128
    zero_init: bool = False

    def __post_init__(self) -> None:
        check_choice("model.encoder", self.encoder, get_args(EncoderName))
        check_choice("model.stem", self.stem, get_args(Stem))
        check_integer("model.width", self.width, at_least=1, at_most=_WIDEST)
        check_integer("model.projection", self.projection, at_least=0, at_most=_WIDEST)
        check_integer("model.dim", self.dim, at_least=1, at_most=_WIDEST)

    @property
    def for_images(self) -> bool:
        """Whether the encoder takes images; the others take features."""
        return self.encoder in IMAGE_ENCODERS


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """What is minimised: SimCLR's loss, SogCLR's, or the two-sided InfoNCE of the paper.

    Attributes:
        loss: which one.
        temperature: τ.
        gamma: of SogCLR: the weight of the new value in the moving average.
    """

    loss: Loss = "simclr"
    temperature: float = 0.1
    gamma: float = 0.9

    def __post_init__(self) -> None:
        check_choice("objective.loss", self.loss, get_args(Loss))
        check_temperature(self.temperature, "objective.temperature")
        check_positive("objective.gamma", self.gamma, at_most=1)


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """Which samples share a batch.

    Attributes:
        selector: how to choose.
        planned_from: "bank": what was recorded while training, which is free; "pass": a pass over the training set
            before each plan; "training-pass": the same with batch norm in training mode, as the authors do.
        average_views: plan images by the mean of the embeddings of their two views, which are drawn anew each time, and
            not by the views themselves; what is recorded while training is averaged over epochs, too. Pairs of
            features, which stay as they are, have no views.
        shuffled_epochs: how many first epochs are shuffled; None: one where planned from the bank, none otherwise.
        replan_every: plan anew every so many epochs.
        plan_ahead: the last share of an epoch, such as 0.1, in which the next plan is made in the background, from what
            is recorded until then; 0: between two epochs. For plans from the bank.
        background: beside a planned batch, the loss sees random old embeddings where they help; not in SogCLR.
        drop_last: leave out samples that do not fill a batch, others each epoch; if false, they make a smaller one.
        sharing: with many processes, whether each takes "whole" batches or its part of every one ("split"), with
            negatives gathered from all.
    """

    selector: Selector = field(default_factory=Cut)
    planned_from: PlannedFrom = "bank"
    average_views: bool = True
    shuffled_epochs: int | None = None
    replan_every: int = 1
    plan_ahead: float = 0.0
    background: bool = True
    drop_last: bool = True
    sharing: Literal["whole", "split"] = "whole"

    def __post_init__(self) -> None:
        selector: object = self.selector
        if not (isinstance(selector, Selector) and is_dataclass(selector)):
            raise wrong_type("selection.selector", "be a Selector and a dataclass, such as Cut()", selector)
        check_choice("selection.planned_from", self.planned_from, get_args(PlannedFrom))
        _check_optional("selection.shuffled_epochs", self.shuffled_epochs, at_least=0)
        check_integer("selection.replan_every", self.replan_every, at_least=1)
        if check_share("selection.plan_ahead", self.plan_ahead) and self.planned_from != "bank":
            rule = f"be 0 with planned_from = {self.planned_from!r}, which is a pass between two epochs"
            raise invalid("selection.plan_ahead", rule, self.plan_ahead)
        check_flag("selection.background", self.background)
        check_flag("selection.drop_last", self.drop_last)
        check_choice("selection.sharing", self.sharing, ("whole", "split"))

    @property
    def plans(self) -> bool:
        """Whether embeddings matter; a plain shuffle needs none."""
        return not self.selector.is_shuffle

    @property
    def first_planned(self) -> int:
        """The first epoch that is planned: those before it are shuffled."""
        return int(self.planned_from == "bank") if self.shuffled_epochs is None else self.shuffled_epochs


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """How the weights move.

    Attributes:
        name: "lars", "sgd" or "adamw".
        learning_rate: the highest; None: 0.075 √B, as in the paper.
        momentum: of LARS and SGD.
        weight_decay: of all weights but biases and those of norms.
        warmup_epochs: in which the rate rises linearly; at most a tenth of the run. A half-cosine to zero follows.
        clip: the largest norm of a gradient; None: any.
        accumulate: how many batches make one step.
    """

    name: OptimizerName = "lars"
    learning_rate: float | None = None
    momentum: float = 0.9
    weight_decay: float = 1e-6
    warmup_epochs: float = 10.0
    clip: float | None = None
    accumulate: int = 1

    def __post_init__(self) -> None:
        check_choice("optimizer.name", self.name, get_args(OptimizerName))
        if self.learning_rate is not None:
            check_positive("optimizer.learning_rate", self.learning_rate)
        check_at_least_zero("optimizer.momentum", self.momentum)
        if self.momentum >= 1:
            raise invalid("optimizer.momentum", "be below 1", self.momentum)
        check_at_least_zero("optimizer.weight_decay", self.weight_decay)
        check_at_least_zero("optimizer.warmup_epochs", self.warmup_epochs)
        if self.clip is not None:
            check_positive("optimizer.clip", self.clip)
        check_integer("optimizer.accumulate", self.accumulate, at_least=1)


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """When and how retrieval is scored on the test set.

    Attributes:
        every_epochs: after every so many epochs, and after the last; 0: after the last alone.
        every_steps: also after every so many steps; 0: not.
        draws: how many pairs of views are drawn of each image; the scores are means over them.
        batch_size: how many samples are embedded at once.
        statistics: from how many training samples, in shuffled batches, the means and variances of batch norm are
            estimated anew before the model is scored; 0: it is scored with those of the planned batches.
    """

    every_epochs: int = 1
    every_steps: int = 0
    draws: int = 2
    batch_size: int = 500
    statistics: int = 2048

    def __post_init__(self) -> None:
        check_integer("evaluation.every_epochs", self.every_epochs, at_least=0)
        check_integer("evaluation.every_steps", self.every_steps, at_least=0)
        check_integer("evaluation.draws", self.draws, at_least=1, at_most=_MOST_DRAWS)
        check_integer("evaluation.batch_size", self.batch_size, at_least=1)
        check_integer("evaluation.statistics", self.statistics, at_least=0)
        if self.statistics == 1:
            raise invalid("evaluation.statistics", "be 0 or at least 2: one sample has no variance", self.statistics)


@dataclass(frozen=True, kw_only=True)
class KeepingSettings:
    """What is written to the run's folder and when.

    Attributes:
        log_every: a line of metrics every so many steps, with the mean loss since the last.
        checkpoint_epochs: a checkpoint every so many epochs, and after the last.
        checkpoint_steps: also every so many steps; 0: not.
        checkpoints: how many are kept.
        embeddings: how many training samples' embeddings are kept, before and after; 0: none.
        tensorboard: whether losses, scores and the figures of plans are written for TensorBoard, too.
    """

    log_every: int = 10
    checkpoint_epochs: int = 1
    checkpoint_steps: int = 0
    checkpoints: int = 2
    embeddings: int = 2048
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_integer("keeping.log_every", self.log_every, at_least=1)
        check_integer("keeping.checkpoint_epochs", self.checkpoint_epochs, at_least=1)
        check_integer("keeping.checkpoint_steps", self.checkpoint_steps, at_least=0)
        check_integer("keeping.checkpoints", self.checkpoints, at_least=1)
        check_integer("keeping.embeddings", self.embeddings, at_least=0)
        check_flag("keeping.tensorboard", self.tensorboard)


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """Where a run works, in the words of Lightning Fabric.

    Attributes:
        accelerator: "auto", "cpu", "cuda", "mps" and so on.
        devices: how many on each node; under `torchrun`, what that says.
        nodes: how many there are; under `torchrun`, what that says.
        precision: "32-true", "bf16-mixed" or "16-mixed".
    """

    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: Precision = "32-true"

    def __post_init__(self) -> None:
        accelerator: object = self.accelerator
        if not isinstance(accelerator, str) or not accelerator:
            raise invalid("machine.accelerator", "be a text that is not empty", repr(accelerator))
        check_integer("machine.devices", self.devices, at_least=1)
        check_integer("machine.nodes", self.nodes, at_least=1)
        check_choice("machine.precision", self.precision, get_args(Precision))


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of a run; with the data and the versions, the run is a function of it.

    Attributes:
        seed: of all randomness, together with the epoch and the step.
        epochs: how many passes over the training set.
        batch_size: B, over all processes where batches are split.
        data: what to learn from.
        views: how two views are made of an image.
        model: what makes an embedding.
        objective: what is minimised.
        selection: which samples share a batch.
        optimizer: how the weights move.
        evaluation: when and how retrieval is scored.
        keeping: what is written and when.
        machine: where the run works.
    """

    seed: int = 0
    epochs: int = 10
    batch_size: int = 32
    data: DataSettings = field(default_factory=DataSettings)
    views: ViewSettings = field(default_factory=ViewSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    keeping: KeepingSettings = field(default_factory=KeepingSettings)
    machine: MachineSettings = field(default_factory=MachineSettings)

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, at_least=0, at_most=2**31 - 1)
        check_integer("epochs", self.epochs, at_least=1)
        check_integer("batch_size", self.batch_size, at_least=2)

    @property
    def peak_rate(self) -> float:
        """The highest learning rate: 0.075 √B where none is given."""
        given = self.optimizer.learning_rate
        return 0.075 * math.sqrt(self.batch_size) if given is None else given


def _check_optional(argument: str, value: int | None, *, at_least: int, at_most: int | None = None) -> None:
    if value is not None:
        check_integer(argument, value, at_least=at_least, at_most=at_most)
