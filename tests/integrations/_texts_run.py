"""A SentenceTransformerTrainer on a tiny model that says which rows each step saw; as a script, in two processes."""

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, IterableDataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tests.integrations._runs import TRAINING, N, end_together, leave
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from batchcut.integrations import PlannedTexts

WORDS = ["[PAD]", "[UNK]", *(f"a{i}" for i in range(N)), *(f"p{i}" for i in range(N)), *(f"w{i}" for i in range(30))]

Seen = list[list[int]]


def texts(count: int = N) -> dict[str, list[str]]:
    """Pairs whose first words say which row they are of."""
    random = torch.Generator().manual_seed(0)
    words = torch.randint(0, 30, (count, 3), generator=random).tolist()
    rest = [" ".join(f"w{word}" for word in row) for row in words]
    return {"anchor": [f"a{i} {rest[i]}" for i in range(count)], "positive": [f"p{i} {rest[i]}" for i in range(count)]}


def write_model(folder: Path) -> Path:
    """One layer, made on the spot with a tokenizer of whole words."""
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token=special["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=tokenizer, model_max_length=16, **special).save_pretrained(str(folder))
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    bert: Any = BertModel
    bert(config).save_pretrained(folder)
    return folder


def tiny_model(folder: Path) -> SentenceTransformer:
    """The model in a folder, written if there is none."""
    if not (folder / "config.json").exists():
        write_model(folder)
    return SentenceTransformer(modules=[Transformer(str(folder)), Pooling(16)], device="cpu")


class Watching(MultipleNegativesRankingLoss):
    """Says what it is given in training, by the first words."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__(model)
        self.seen: Seen = []
        self.evaluated: Seen = []

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        features = list(sentence_features)
        rows = (features[1]["input_ids"][:, 0] - WORDS.index("p0")).tolist()
        (self.seen if self.model.training else self.evaluated).append(rows)
        return super().forward(features, labels)


class Run:
    """A trainer with planned batches."""

    def __init__(
        self,
        folder: Path,
        *,
        source: Path | None = None,
        data: Any = None,
        evaluated: Dataset | None = None,
        options: dict[str, Any] | None = None,
        make: Callable[[Path], SentenceTransformer] = tiny_model,
        loss: Callable[[SentenceTransformer], Any] | None = None,
        planned: bool = True,
        **settings: Any,
    ) -> None:
        self.model = make(source or folder / "model")
        self.loss = Watching(self.model)
        self.trainer = SentenceTransformerTrainer(
            self.model,
            SentenceTransformerTrainingArguments(str(folder), **(TRAINING | (options or {}))),
            train_dataset=Dataset.from_dict(texts()) if data is None else data,
            eval_dataset=evaluated,
            loss=self.loss if loss is None else loss(self.model),
        )
        if not isinstance(data, IterableDataset):
            settings = {"shuffled_epochs": 0} | settings
        if planned:
            self.planned = PlannedTexts(self.trainer, **settings)

    def train(self, resume: Path | None = None) -> Seen:
        self.trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
        return self.loss.seen


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # Those of the frameworks are the business of the runs in one process.
    torch.set_num_threads(1)
    # Before there is a process group: transformers lets the first process alone write.
    source = write_model(folder / f"model{os.environ['RANK']}")
    run = Run(folder / "run", source=source)
    seen = run.train()
    plan = run.planned.samplers[0].plan
    assert plan is not None
    again = Run(folder / "again", source=source).train(folder / "run" / "checkpoint-4")
    leave(folder, {"seen": seen, "plan": [row.tolist() for row in plan], "resumed": again})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end_together()
