"""Hugging Face Trainer: a mixin before the trainer class. Also under torchrun."""

import tempfile

import torch
from torch import Tensor
from transformers import CLIPConfig, CLIPModel, Trainer, TrainingArguments

from batchcut.integrations import PlanningMixin


class PlanningTrainer(PlanningMixin, Trainer):
    """A trainer whose batches are planned."""


def collate(samples: list[dict[str, Tensor]]) -> dict[str, Tensor | bool]:
    """A batch, and the wish for a loss."""
    batch = {name: torch.stack([sample[name] for sample in samples]) for name in samples[0]}
    return batch | {"return_loss": True}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tower = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config = CLIPConfig(
        text_config=tower | {"vocab_size": 100, "max_position_embeddings": 8, "eos_token_id": 99},
        vision_config=tower | {"image_size": 8, "patch_size": 4},
        projection_dim=16,
    )
    captions, images = torch.randint(0, 98, (200, 6)), torch.randn(200, 3, 8, 8)
    captions[:, -1] = 99  # CLIP reads the embedding at the end of a text
    dataset = [{"input_ids": a, "pixel_values": b} for a, b in zip(captions, images, strict=True)]

    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            per_device_train_batch_size=20,
            num_train_epochs=2,
            save_steps=5,
            report_to=[],
            use_cpu=True,
        )
        trainer = PlanningTrainer(
            model=CLIPModel(config),
            args=args,
            train_dataset=dataset,
            data_collator=collate,
            temperature=0.1,
        )
        trainer.train()
    if trainer.sampler is not None and trainer.sampler.plan is not None:
        print("mean loss of the batches as planned:", round(trainer.sampler.plan.mean_loss, 3))
