"""sentence-transformers: one object that takes the trainer. Also under torchrun."""

import tempfile

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from batchcut.integrations import PlannedTexts

COLORS, THINGS, PLACES = (
    ("red", "blue", "green"),
    ("cat", "dog", "bird", "fish"),
    ("house", "tree", "street", "boat", "sea"),
)


def untrained_model() -> SentenceTransformer:
    """A model that needs no download; yours is `SentenceTransformer("...")`."""
    words = ["?", "a", "by", "the", "there", "is", *COLORS, *THINGS, *PLACES]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = Whitespace()
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")


if __name__ == "__main__":
    torch.manual_seed(0)
    scenes = [(color, thing, place) for color in COLORS for thing in THINGS for place in PLACES]
    dataset = Dataset.from_dict(
        {
            "anchor": [f"a {color} {thing} by the {place}" for color, thing, place in scenes],
            "positive": [f"by the {place} there is a {thing}" for _, thing, place in scenes],
        }
    )
    model = untrained_model()
    with tempfile.TemporaryDirectory() as folder:
        args = SentenceTransformerTrainingArguments(
            folder,
            per_device_train_batch_size=12,
            num_train_epochs=2,
            report_to=[],
            use_cpu=True,
        )
        loss = MultipleNegativesRankingLoss(model)
        trainer = SentenceTransformerTrainer(model, args, train_dataset=dataset, loss=loss)
        planned = PlannedTexts(trainer)
        trainer.train()

    plan = planned.samplers[0].plan
    if plan is not None:
        print(f"loss of a batch {plan.mean_loss:.2f}, at the loss's temperature {plan.temperature}")
        first = (dataset["anchor"][int(row)] for row in plan.batches[0][:3])
        print("a batch as planned:", *first, sep="\n  ")
        print("pairs of rows with a text in common in one batch:", plan.group_pairs)
