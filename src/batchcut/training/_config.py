"""The settings of a run: nested frozen records, each of which says what it takes."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from batchcut._errors import check_choice, check_integer, check_positive, invalid, wrong_type
from batchcut.selection import Cut, Ordered, Shuffle, Spectral

from ._checks import check_at_least_zero, check_optional, check_text
from ._settings import DataSettings, ModelSettings, ObjectiveSettings, ViewSettings

PlannedFrom = Literal["bank", "pass", "training-pass"]
OptimiserName = Literal["lars", "sgd", "adamw"]
Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
AnySelector = Shuffle | Ordered | Spectral | Cut


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """Which samples share a batch.

    Attributes:
        selector: how to choose.
        planned_from: "bank": what was recorded while training, which is free; "pass": a pass over the training set
            before each plan; "training-pass": the same with batch norm in training mode, as the authors do.
        average_views: plan images by the mean of the embeddings of their two views, which are drawn anew each time, and
            not by the views themselves. Pairs of features, which stay as they are, have no views.
        warmup: how many first epochs are shuffled; None: one where planned from the bank, none otherwise.
        refresh: plan anew every so many epochs.
        leftover: what becomes of samples that do not fill a batch: "rotate" or "short".
        sharing: with many processes, whether each takes "whole" batches or its part of every one ("split"), with
            negatives gathered from all.
    """

    selector: AnySelector = field(default_factory=Cut)
    planned_from: PlannedFrom = "bank"
    average_views: bool = True
    warmup: int | None = None
    refresh: int = 1
    leftover: Literal["rotate", "short"] = "rotate"
    sharing: Literal["whole", "split"] = "whole"

    def __post_init__(self) -> None:
        if not isinstance(self.selector, AnySelector):
            raise wrong_type("selection.selector", "be a Shuffle, Ordered, Spectral or Cut", self.selector)
        check_choice("selection.planned_from", self.planned_from, get_args(PlannedFrom))
        check_optional("selection.warmup", self.warmup, at_least=0)
        check_integer("selection.refresh", self.refresh, at_least=1)
        check_choice("selection.leftover", self.leftover, ("rotate", "short"))
        check_choice("selection.sharing", self.sharing, ("whole", "split"))

    @property
    def plans(self) -> bool:
        """Whether embeddings matter; a plain shuffle needs none."""
        return not (
            isinstance(self.selector, Shuffle)
            and self.selector.replacement == "without"
            and self.selector.margin is None
        )

    @property
    def shuffled_epochs(self) -> int:
        """How many first epochs are shuffled."""
        return int(self.planned_from == "bank") if self.warmup is None else self.warmup


@dataclass(frozen=True, kw_only=True)
class OptimiserSettings:
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

    name: OptimiserName = "lars"
    learning_rate: float | None = None
    momentum: float = 0.9
    weight_decay: float = 1e-6
    warmup_epochs: float = 10.0
    clip: float | None = None
    accumulate: int = 1

    def __post_init__(self) -> None:
        check_choice("optimiser.name", self.name, get_args(OptimiserName))
        if self.learning_rate is not None:
            check_positive("optimiser.learning_rate", self.learning_rate)
        check_at_least_zero("optimiser.momentum", self.momentum)
        if self.momentum >= 1:
            raise invalid("optimiser.momentum", "be below 1", self.momentum)
        check_at_least_zero("optimiser.weight_decay", self.weight_decay)
        check_at_least_zero("optimiser.warmup_epochs", self.warmup_epochs)
        if self.clip is not None:
            check_positive("optimiser.clip", self.clip)
        check_integer("optimiser.accumulate", self.accumulate, at_least=1)


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
        check_integer("evaluation.draws", self.draws, at_least=1)
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
    """

    log_every: int = 10
    checkpoint_epochs: int = 1
    checkpoint_steps: int = 0
    checkpoints: int = 2
    embeddings: int = 2048

    def __post_init__(self) -> None:
        check_integer("keeping.log_every", self.log_every, at_least=1)
        check_integer("keeping.checkpoint_epochs", self.checkpoint_epochs, at_least=1)
        check_integer("keeping.checkpoint_steps", self.checkpoint_steps, at_least=0)
        check_integer("keeping.checkpoints", self.checkpoints, at_least=1)
        check_integer("keeping.embeddings", self.embeddings, at_least=0)


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
        check_text("machine.accelerator", self.accelerator)
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
        optimiser: how the weights move.
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
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
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
        given = self.optimiser.learning_rate
        return 0.075 * math.sqrt(self.batch_size) if given is None else given
