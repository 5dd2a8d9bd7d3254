"""A Hugging Face Trainer on a tiny CLIP that says which samples each step was given; as a script, in two processes."""

import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from tests.integrations._runs import TRAINING, B, N, end_together, leave
from torch import Tensor
from torch.utils.data import Dataset
from transformers import CLIPConfig, CLIPModel, Trainer, TrainingArguments

from batchcut.integrations import PlanningMixin

WIDTH = 8
TOWER = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}

Seen = list[list[int]]


class Captions(Dataset[dict[str, Tensor]]):
    """Images and captions; the first token of a caption is the index of the sample."""

    def __init__(self, count: int = N) -> None:
        random = torch.Generator().manual_seed(0)
        self.tokens = torch.cat(
            [torch.arange(count)[:, None], torch.randint(0, 60, (count, 5), generator=random)], dim=1
        )
        self.images = torch.randn(count, 3, 8, 8, generator=random)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.tokens[index], "pixel_values": self.images[index]}


def collate(items: list[dict[str, Tensor]]) -> dict[str, Any]:
    return {name: torch.stack([item[name] for item in items]) for name in items[0]} | {"return_loss": True}


def tiny_clip() -> CLIPModel:
    torch.manual_seed(1)
    text = TOWER | {"vocab_size": 60, "max_position_embeddings": 8}
    vision = TOWER | {"image_size": 8, "patch_size": 4}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH))


class Watched(Trainer):
    """Says what its steps are given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: Seen = []

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        assert set(inputs) == {"input_ids", "pixel_values", "return_loss"}
        if model.training:
            self.seen.append(inputs["input_ids"][:, 0].tolist())
        return super().compute_loss(model, inputs, *args, **kwargs)


class PlanningTrainer(PlanningMixin, Watched):
    """The trainer under test."""


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    return TrainingArguments(str(folder), **(TRAINING | options))


def trainer(folder: Path, *, options: dict[str, Any] | None = None, **settings: Any) -> PlanningTrainer:
    return PlanningTrainer(
        model=tiny_clip(),
        args=arguments(folder, **(options or {})),
        train_dataset=Captions(),
        data_collator=collate,
        **settings,
    )


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # Those of the frameworks are the business of the runs in one process.
    torch.set_num_threads(1)
    outcome: dict[str, Any] = {}
    split = {"per_device_train_batch_size": B // 2}
    for name, options, settings in [("whole", {}, {}), ("split", split, {"mode": "split"})]:
        run = trainer(folder / name, options=options, **settings)
        run.train()
        assert run.sampler is not None
        assert run.sampler.plan is not None
        again = trainer(folder / f"{name} again", options=options, **settings)
        again.train(resume_from_checkpoint=str(folder / name / "checkpoint-4"))
        plan = [row.tolist() for row in run.sampler.plan]
        outcome[name] = {"seen": run.seen, "plan": plan, "resumed": again.seen}
    leave(folder, outcome)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end_together()
