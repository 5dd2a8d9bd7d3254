"""What a loss of sentence-transformers embeds is recorded, whichever it is; prompts, routes and temperatures count."""

import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling, Router, StaticEmbedding, Transformer
from sentence_transformers.util import dot_score, mine_hard_negatives
from tests.integrations._runs import B, N
from tests.integrations._texts_run import WORDS, Run, texts, tiny_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn

import batchcut as bc
from batchcut.integrations._text_losses import temperature_of
from batchcut.integrations._text_recording import ROW, NumberedCollate, NumberedDataset, Recorder, sides_of

ONE_EPOCH = {"num_train_epochs": 1, "save_strategy": "no", "learning_rate": 0.0}
"""At rate 0 the model stays as it is, and what was recorded can be compared with what it encodes."""

LOSSES: dict[str, Any] = {
    "ranking": losses.MultipleNegativesRankingLoss,
    "cached": lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=3),
    "matryoshka": lambda model: losses.MatryoshkaLoss(model, losses.MultipleNegativesRankingLoss(model), [16, 8]),
    "some dimensions": lambda model: losses.MatryoshkaLoss(
        model, losses.MultipleNegativesRankingLoss(model), [16, 8, 4], n_dims_per_step=1
    ),
    "matryoshka cached": lambda model: losses.MatryoshkaLoss(
        model, losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=5), [16, 8]
    ),
    "layers": lambda model: losses.AdaptiveLayerLoss(model, losses.MultipleNegativesRankingLoss(model)),
    "guided": lambda model: losses.GISTEmbedLoss(model, guide_of(model)),
}


def guide_of(model: SentenceTransformer) -> SentenceTransformer:
    """Another model, whose embeddings must not be recorded."""
    folder = str(cast(Any, model[0]).model.config._name_or_path)
    return SentenceTransformer(modules=[Transformer(folder), Pooling(16)], device="cpu")


def without_dropout(run: Run) -> Run:
    for module in run.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return run


def encoded(run: Run, columns: dict[str, list[str]], *names: str, **prompts: str) -> list[torch.Tensor]:
    return [
        run.model.encode(columns[name], convert_to_tensor=True, prompt=prompts.get(name)).detach().cpu()
        for name in names
    ]


NOTHING_PLANNED = pytest.mark.filterwarnings("ignore:shuffled_epochs is 1 and the training ends before")


def assert_recorded(run: Run, u: torch.Tensor, v: torch.Tensor) -> None:
    assert run.planned.sampler is not None
    bank = run.planned.sampler.bank
    assert bank.coverage == 1
    for side, expected in ((bank.u, u), (bank.v, v)):
        cosine = torch.nn.functional.cosine_similarity(side, expected)
        torch.testing.assert_close(cosine, torch.ones(N), rtol=0, atol=1e-5)


@NOTHING_PLANNED
@pytest.mark.parametrize("negatives", [0, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_recorded_are_the_embeddings_that_the_loss_computes(tmp_path: Path, name: str, negatives: int) -> None:
    columns = texts()
    for k in range(min(negatives, 1) if name == "guided" else negatives):  # which takes no more
        columns[f"negative_{k}"] = [f"w{(i + 7 * k) % 30} w{i % 29}" for i in range(N)]
    run = Run(tmp_path, data=Dataset.from_dict(columns), options=ONE_EPOCH, loss=LOSSES[name], shuffled_epochs=1)
    without_dropout(run).trainer.train()
    assert run.planned.sampler is not None
    assert run.planned.sampler.bank.clock == 7  # a record a step, and none by encoding
    assert_recorded(run, *sides_of(encoded(run, columns, *columns)))


def test_a_row_with_negatives_is_halfway_between_them_and_its_positive() -> None:
    anchor, positive, *negatives = torch.eye(4)[:, None] * torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None, None]
    assert sides_of([anchor])[1].tolist() == anchor.tolist()
    assert sides_of([anchor, positive])[1].tolist() == positive.tolist()
    u, v = sides_of([anchor, positive, *negatives])
    assert (u.tolist(), v.tolist()) == (anchor.tolist(), [[0.0, 1.0, 0.5, 0.5]])


@pytest.mark.parametrize("encoded_first", [False, True])
def test_negatives_count_for_how_hard_a_batch_is(tmp_path: Path, encoded_first: bool) -> None:
    """Positives have no word in common; the negative of a row has one with the anchors of its kind."""
    kinds = np.arange(N) % (N // B)
    columns = {
        "anchor": [f"w{kind} a{i}" for i, kind in enumerate(kinds.tolist())],
        "positive": [f"a{i} p{i}" for i in range(N)],
        "negative": [f"w{kind} p{N - 1 - i}" for i, kind in enumerate(kinds.tolist())],
    }
    run = Run(
        tmp_path,
        make=lambda _: bag_of_words(),
        data=Dataset.from_dict(columns),
        options={"max_steps": 2 * -(-N // B), "save_strategy": "no", "learning_rate": 0.0},
        loss=losses.MultipleNegativesRankingLoss,
        shuffled_epochs=0 if encoded_first else 1,
    )
    run.trainer.train()
    plan = run.planned.samplers[0].plan
    assert plan is not None
    same = [float((kinds[batch][:, None] == kinds[batch]).mean()) for batch in plan.batches if batch.min() >= 0]
    assert sum(same) / len(same) > 0.7  # by chance a quarter


def test_nothing_is_encoded_after_the_first_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, options={"num_train_epochs": 3, "save_strategy": "no"})
    asked, embed = [], run.planned._embed

    def noted(rows: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(len(rows))
        return embed(rows)

    monkeypatch.setattr(run.planned, "_embed", noted)
    run.train()
    assert asked == [N]
    assert run.planned.sampler is not None
    assert run.planned.sampler.bank.clock == 1 + 3 * 7
    plan, bank = run.planned.sampler.plan, run.planned.sampler.bank
    assert plan is not None
    assert plan.epoch == 2
    assert int(bank.recorded_at.min()) >= 1 + 2 * 7


def test_embeddings_of_the_user_plan_the_first_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = (torch.randn(N, 16, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    run = Run(tmp_path, options=ONE_EPOCH, embeddings=(u.numpy(), v), selector=bc.Cut(temperature=0.05))
    monkeypatch.setattr(run.planned, "_embed", lambda _: pytest.fail("nothing is encoded"))
    seen = run.train()
    plan = bc.Cut(temperature=0.05)(u, v, batch_size=B, seed=42, drop_last=False)
    assert {frozenset(batch) for batch in seen} == {frozenset(row.tolist()) for row in plan}


def test_embeddings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, options=ONE_EPOCH, embeddings=(torch.randn(N, 5), torch.randn(N, 5)))
    with pytest.raises(
        ValueError, match=r"embeddings must have shape \(50, 16\), a row of the model's width for .*; got"
    ):
        run.train()


def test_embeddings_for_no_data_set_are_refused(tmp_path: Path) -> None:
    sides = (torch.randn(N, 16), torch.randn(N, 16))
    for data, expected in (({"one": Dataset.from_dict(texts())}, "'one'"), (None, "none: give u and v")):
        run = Run(
            tmp_path,
            options=ONE_EPOCH,
            data=None if data is None else DatasetDict(data),
            embeddings={"other": sides},
        )
        with pytest.raises(ValueError, match=rf"embeddings must have names of data sets, {expected}; got \['other'\]"):
            run.train()


def test_embeddings_of_one_data_set_are_not_those_of_several(tmp_path: Path) -> None:
    sides = (torch.randn(N, 16), torch.randn(N, 16))
    several = DatasetDict(one=Dataset.from_dict(texts()), other=Dataset.from_dict(texts()))
    run = Run(tmp_path, options=ONE_EPOCH, data=several, embeddings=sides)
    rule = "have u and v by the names of the data sets, 'one', 'other'"
    with pytest.raises(ValueError, match=f"embeddings must {rule}; got tuple"):
        run.train()


def test_embeddings_are_two_arrays(tmp_path: Path) -> None:
    three: Any = (torch.randn(N, 16),) * 3
    with pytest.raises(ValueError, match="embeddings must be two arrays, u and v; got 3"):
        Run(tmp_path, options=ONE_EPOCH, embeddings=three).train()
    one = DatasetDict(one=Dataset.from_dict(texts()))
    with pytest.raises(ValueError, match=r"embeddings\['one'\] must be two arrays, u and v; got int"):
        Run(tmp_path, options=ONE_EPOCH, data=one, embeddings={"one": 3}).train()


def test_a_trainer_may_collect_features_more_than_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, options={"num_train_epochs": 2, "save_strategy": "no"}, shuffled_epochs=1)
    compute = run.trainer.compute_loss

    def looked_at(model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        run.trainer.collect_features(inputs)
        return compute(model, inputs, *args, **options)

    monkeypatch.setattr(run.trainer, "compute_loss", looked_at)
    monkeypatch.setattr(run.planned, "_embed", lambda _: pytest.fail("nothing is encoded"))
    run.train()
    assert run.planned.sampler is not None
    assert run.planned.sampler.bank.clock == 14


def test_a_model_that_truncates_is_trained_on_all_its_width(tmp_path: Path) -> None:
    def truncating(folder: Path) -> SentenceTransformer:
        model = tiny_model(folder)
        model.truncate_dim = 8
        return model

    sides = (torch.randn(N, 16), torch.randn(N, 16))
    run = Run(tmp_path, make=truncating, options=ONE_EPOCH, embeddings=sides)
    run.train()
    assert run.planned.sampler is not None
    assert run.planned.sampler.bank.u.shape == (N, 16)
    assert run.model.truncate_dim == 8


@NOTHING_PLANNED
@pytest.mark.parametrize("encoded_first", [True, False])
def test_prompts_count(tmp_path: Path, encoded_first: bool) -> None:
    columns, prompts = texts(), {"anchor": "w1 w2 ", "positive": "w3 "}
    options = {**ONE_EPOCH, "prompts": prompts}
    run = without_dropout(Run(tmp_path, options=options, shuffled_epochs=0 if encoded_first else 1))
    expected = encoded(run, columns, "anchor", "positive", **prompts)
    if encoded_first:
        found = run.planned._embed([{name: columns[name][i] for name in columns} for i in range(N)])
        for side, one in zip(found, expected, strict=True):
            torch.testing.assert_close(side, one)
    run.trainer.train()
    assert_recorded(run, *expected)


@NOTHING_PLANNED
def test_prompts_of_several_data_sets(tmp_path: Path) -> None:
    columns = texts()
    halves = {
        name: Dataset.from_dict({key: column[part] for key, column in columns.items()})
        for name, part in (("first", slice(0, 26)), ("second", slice(26, N)))
    }
    prompts = {"first": {"anchor": "w1 "}, "second": {"anchor": "w2 w3 "}}
    run = Run(tmp_path, data=DatasetDict(halves), options={**ONE_EPOCH, "prompts": prompts}, shuffled_epochs=1)
    without_dropout(run).trainer.train()
    for name, sampler in zip(halves, run.planned.samplers, strict=True):
        assert sampler.bank.coverage == 1
        expected = run.model.encode(halves[name]["anchor"], prompt=prompts[name]["anchor"], convert_to_tensor=True)
        torch.testing.assert_close(sampler.bank.u, expected.detach())


def test_routes_count(tmp_path: Path) -> None:
    def routed(folder: Path) -> SentenceTransformer:
        sides: Any = [[*tiny_model(folder / side).children()] for side in ("query", "document")]
        with torch.no_grad():
            for parameter in sides[1][0].parameters():
                parameter.mul_(1.1)
        return SentenceTransformer(modules=[Router.for_query_document(*sides)], device="cpu")

    columns = texts()
    mapping = {"anchor": "query", "positive": "document"}
    run = Run(tmp_path, make=routed, options={**ONE_EPOCH, "router_mapping": mapping})
    without_dropout(run)
    u, v = run.model.encode_query(columns["anchor"]), run.model.encode_document(columns["positive"])
    found = run.planned._embed([{name: columns[name][i] for name in columns} for i in range(N)])
    for side, expected in zip(found, (u, v), strict=True):
        torch.testing.assert_close(side, torch.as_tensor(expected))
    run.trainer.train()
    assert_recorded(run, torch.as_tensor(u), torch.as_tensor(v))


def learned(loss: Any, scale: float) -> Any:
    """The loss with a scale that is trained with the model, as those of CLIP are."""
    del loss.scale
    loss.scale = nn.Parameter(torch.tensor(scale))
    return loss


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda model: losses.MultipleNegativesRankingLoss(model), 0.05),
        (lambda model: losses.MultipleNegativesRankingLoss(model, scale=50.0), 0.02),
        (lambda model: losses.CachedMultipleNegativesRankingLoss(model, scale=10.0), 0.1),
        (lambda model: losses.GISTEmbedLoss(model, model, temperature=0.03), 0.03),
        (lambda model: losses.MatryoshkaLoss(model, losses.MultipleNegativesRankingLoss(model, scale=25), [16]), 0.04),
        (lambda model: losses.Matryoshka2dLoss(model, losses.MultipleNegativesRankingLoss(model), [16]), 0.05),
        (lambda model: losses.AdaptiveLayerLoss(model, losses.MultipleNegativesRankingLoss(model)), 0.05),
        (lambda model: losses.MultipleNegativesRankingLoss(model, scale=cast(float, np.float32(50))), 0.02),
        (lambda model: learned(losses.MultipleNegativesRankingLoss(model), 25.0), 0.04),
        (lambda model: losses.ContrastiveLoss(model), None),
        (lambda model: losses.MultipleNegativesRankingLoss(model, scale=1, similarity_fct=dot_score), None),
    ],
)
def test_the_temperature_is_that_of_the_loss(tmp_path: Path, make: Any, expected: float | None) -> None:
    found = temperature_of(make(tiny_model(tmp_path)))
    assert found == (None if expected is None else pytest.approx(expected))


def test_plans_have_the_temperature_of_the_loss_unless_told(tmp_path: Path) -> None:
    def scaled(model: SentenceTransformer) -> Any:
        return losses.MultipleNegativesRankingLoss(model, scale=50.0)

    for settings, expected in (({}, 0.02), ({"temperature": 0.3}, 0.3), ({"selector": bc.Cut(temperature=0.4)}, 0.4)):
        run = Run(tmp_path, options=ONE_EPOCH, loss=scaled, **settings)
        run.trainer.train()
        assert run.planned.sampler is not None
        assert run.planned.sampler.plan is not None
        assert run.planned.sampler.plan.temperature == expected


def test_figures_of_each_plan_are_logged(tmp_path: Path) -> None:
    run = Run(tmp_path, options={"num_train_epochs": 3, "save_strategy": "no"})
    run.train()
    logged = [entry for entry in run.trainer.state.log_history if "plan_loss" in entry]
    assert [entry["step"] for entry in logged] == [1, 8, 15]
    plan = run.planned.samplers[0].plan
    assert plan is not None
    last = logged[-1]
    assert last["plan_loss"] == plan.mean_loss
    assert last["plan_times_shuffled"] > 1
    assert (last["plan_conflicts"], last["plan_suspected_false_negatives"]) == (plan.group_pairs, plan.margin_pairs)
    assert last["plan_seconds"] == plan.seconds
    assert logged[0]["plan_bank_age"] == 0
    assert 2 < last["plan_bank_age"] < 4  # seven records an epoch


def bag_of_words() -> SentenceTransformer:
    """A model whose nearest texts have words in common; an untrained transformer finds the same few for all."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu")


def test_rows_with_mined_negatives_are_kept_apart(tmp_path: Path) -> None:
    """300 pairs with three mined negatives each, in batches of 16: joined by chains, all were one group."""
    random = torch.Generator().manual_seed(0)
    said = [[f"w{word}" for word in row] for row in torch.randint(0, 30, (300, 4), generator=random).tolist()]
    columns = {
        name: [" ".join([*words, f"{letter}{i % N}", f"{letter}{i // N}"]) for i, words in enumerate(said)]
        for name, letter in (("anchor", "a"), ("positive", "p"))
    }
    mined = mine_hard_negatives(
        Dataset.from_dict(columns), bag_of_words(), num_negatives=3, output_format="n-tuple", verbose=False
    )
    assert mined.column_names == ["anchor", "positive", "negative_1", "negative_2", "negative_3"]
    run = Run(
        tmp_path,
        data=mined,
        options={**ONE_EPOCH, "per_device_train_batch_size": 16},
        loss=losses.MultipleNegativesRankingLoss,
    )
    run.trainer.train()
    rows = list(zip(*(mined[name] for name in mined.column_names), strict=True))
    plan = run.planned.samplers[0].plan
    assert plan is not None
    assert (len(mined), plan.group_pairs) == (300, 0)
    rivals = NoDuplicatesBatchSampler(mined, batch_size=16, drop_last=False, generator=torch.Generator())
    for batches in (plan, rivals):
        for batch in batches:
            held = [set(rows[i]) for i in batch]
            assert sum(map(len, held)) == len(set().union(*held))


def test_rows_say_their_numbers_to_loaders_alone() -> None:
    plain = Dataset.from_dict({"x": ["a", "b", "c"]})
    numbered = NumberedDataset.of(plain, 10)
    assert plain[0] == {"x": "a"}
    assert numbered[1] == {"x": "b", ROW: 11}
    assert numbered.__getitems__([2, 0]) == [{"x": "c", ROW: 12}, {"x": "a", ROW: 10}]
    assert numbered[:2] == {"x": ["a", "b"]}
    assert numbered.column_names == ["x"]
    assert pickle.loads(pickle.dumps(numbered))[1] == {"x": "b", ROW: 11}  # noqa: S301
    shuffled = NumberedDataset.of(plain.select([2, 0]), 0)
    assert shuffled[0] == {"x": "c", ROW: 0}


class Collate:
    valid_label_columns = ("label",)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {"count": len(rows), "keys": sorted(rows[0])}


def test_numbers_pass_by_the_collator() -> None:
    collate = pickle.loads(pickle.dumps(NumberedCollate(Collate())))  # noqa: S301
    assert collate.valid_label_columns == ("label",)
    assert collate([{"x": 1}, {"x": 2}]) == {"count": 2, "keys": ["x"]}
    batch = collate([{"x": 1, ROW: 7}, {"x": 2, ROW: 5}])
    assert (batch["keys"], batch[ROW].tolist()) == (["x"], [7, 5])


@pytest.mark.parametrize("parts", [[[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1, 2, 3, 4, 5]], [[0], [1], [2], [3]]])
def test_columns_are_told_apart_by_order(parts: list[list[int]]) -> None:
    """Two columns of two rows, and what may come after them, as a loss may cut them."""
    found: list[tuple[Any, ...]] = []
    recorder = Recorder(lambda *record: found.append(tuple(part.flatten().tolist() for part in record)))
    module = nn.Identity()
    recorder.watch(module)
    collect = recorder.through(lambda inputs: ([{}, {}], inputs.get("label")))
    collect({ROW: torch.tensor([8, 9]), "label": 1})
    for part in [*parts, [7, 7]]:
        module({"sentence_embedding": torch.tensor(part, dtype=torch.float32)[:, None]})
    assert found == [([8, 9], [0.0, 1.0], [2.0, 3.0])]
    collect({"label": 1})
    module({"sentence_embedding": torch.ones(4, 1)})
    assert len(found) == 1
