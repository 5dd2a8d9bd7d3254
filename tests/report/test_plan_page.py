"""A page from a plan and embeddings: what it says is measured again here, slowly."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.report._folders import BATCH, SAMPLES, TEMPERATURE, embeddings

from batchcut.report import write_plan_report
from batchcut.report._svg import number, percent
from batchcut.sampling import PlannedLoader
from batchcut.selection import BatchPlan, Cut, Shuffle, prospects

U, V = embeddings(SAMPLES, np.random.default_rng(0))
PLAN = Cut(temperature=TEMPERATURE, margin=None)(U, V, batch_size=BATCH, seed=3, epoch=1)
Change = Callable[[], dict[str, Any]]


def loss_of(members: Any) -> float:
    """−log softmax of the positives, mean over both directions, sample by sample."""
    scores = U[members].astype(float) @ V[members].astype(float).T / TEMPERATURE
    both = [np.log(np.exp(table[i]).sum()) - table[i, i] for table in (scores, scores.T) for i in range(len(members))]
    return float(np.mean(both))


def suspected(batches: Any) -> float:
    found = [
        U[i] @ V[j] + U[j] @ V[i] >= U[i] @ V[i] + U[j] @ V[j]
        for members in batches
        for i in members
        for j in members
        if i < j
    ]
    return float(np.mean(found))


def cells(page: str, heading: str) -> list[str]:
    """The cells of the row that begins with the heading."""
    row = re.search(rf'<th scope="row">{heading}</th>(.*?)</tr>', page)
    assert row is not None, heading
    return re.findall("<td>(.*?)</td>", row.group(1))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found.group(1))
    return content


def written(folder: Path, plan: BatchPlan = PLAN, u: object = U, v: object = V, **more: Any) -> str:
    return write_plan_report(plan, u, v, folder / "new" / "plan.html", **more).read_text(encoding="utf-8")


def test_figures_are_those_of_the_plan_and_of_shuffled_batches_of_the_same_seed(tmp_path: Path) -> None:
    page = written(tmp_path)
    shuffled = Shuffle(temperature=TEMPERATURE)(U, V, batch_size=BATCH, seed=3, epoch=1)
    losses = [[loss_of(members) for members in plan] for plan in (PLAN, shuffled)]
    assert cells(page, "mean loss") == [number(float(np.mean(one))) for one in losses]
    assert cells(page, "largest loss") == [number(max(one)) for one in losses]
    assert cells(page, "effective batch size") == [str(PLAN.measured(U, V).effective), str(BATCH)]
    assert cells(page, "Cut, all batches")[0] == percent(suspected(PLAN))
    assert cells(page, "Shuffle, all batches")[0] == percent(suspected(shuffled))
    assert suspected(PLAN) > 0


def test_the_summary_agrees_with_the_page(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert html.unescape(page).count(PLAN.measured(U, V).summary()) == 1
    assert re.findall(r"epoch (\d+)", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)) == ["1", "1"]
    assert [plan["epoch"] for plan in data_of(page)["plans"]] == [1]
    assert "when it was planned" not in page
    for name in ("comparison", "losses", "explorer", "negatives", "settings"):
        assert f'<section id="{name}"' in page
        assert f'href="#{name}"' in page
    assert not re.findall('id="(?:time|geometry)"', page)


def test_shuffled_batches_keep_the_groups_of_the_plan_apart(tmp_path: Path) -> None:
    groups = np.arange(SAMPLES) // 4
    plan = Cut(temperature=TEMPERATURE)(U, V, batch_size=BATCH, seed=3, epoch=1, groups=groups)
    shuffled = Shuffle(temperature=TEMPERATURE)(U, V, batch_size=BATCH, seed=3, epoch=1, groups=groups)
    page = written(tmp_path, plan, groups=groups)
    assert cells(page, "mean loss")[1] == number(float(np.mean([loss_of(members) for members in shuffled])))
    advice = prospects(U, V, plan.measured(U, V), groups=groups).sentences
    assert all(html.escape(sentence) in page for sentence in advice)


def test_the_explorer_has_the_hardest_the_median_and_the_easiest_batches(tmp_path: Path) -> None:
    texts = [f"text {place} </script>" for place in range(SAMPLES)]
    labels = ["even" if place % 2 == 0 else "odd" for place in range(SAMPLES)]
    data = data_of(written(tmp_path, texts=texts, labels=labels))
    (plan,) = data["plans"]
    assert {batch["kind"] for batch in plan["batches"]} == set(data["kinds"])
    assert data["texts"][3] == texts[3]
    assert data["labels"][:3] == ["even", "odd", "even"]
    hardest = max((batch for batch in plan["batches"] if batch["number"] is not None), key=lambda batch: batch["loss"])
    assert (hardest["kind"], plan["ranks"][hardest["number"]]) == ("hardest", 1)


def test_embeddings_that_have_moved_on_are_said_to_be_others(tmp_path: Path) -> None:
    u, v = embeddings(SAMPLES, np.random.default_rng(1))
    page = written(tmp_path, u=u, v=v)
    assert cells(page, "mean loss")[2] == number(PLAN.mean_loss)
    assert cells(page, "mean loss")[0] != number(PLAN.mean_loss)
    assert "They are not those that the plan was made from" in page


def test_a_loader_has_all_that_it_takes(tmp_path: Path) -> None:
    data = torch.utils.data.TensorDataset(torch.from_numpy(U), torch.from_numpy(V))
    loader = PlannedLoader(data, batch_size=BATCH, temperature=TEMPERATURE)
    for _ in range(2):
        for u, v in loader:
            loader.record(u.requires_grad_(), v)
    assert loader.plan is not None
    page = written(tmp_path, loader.plan, loader.bank.u, loader.bank.v)
    assert "when it was planned" not in page  # the embeddings stand still
    assert cells(page, "mean loss")[0] == number(loader.plan.mean_loss)


def test_samples_without_an_embedding_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    u, v = U.copy(), V.copy()
    u[:5] = v[:5] = 0
    page = written(tmp_path, u=u, v=v)
    assert f"91 of {SAMPLES} samples have an embedding." in page
    assert "not measured" in cells(page, "effective batch size")[0]
    shown = data_of(page)["plans"][0]["batches"]
    assert all(min(batch["members"]) >= 5 for batch in shown if batch["number"] is None)


def test_images_are_shown(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (SAMPLES, 3, 9, 7)).astype(np.uint8)
    page = written(tmp_path, images=torch.from_numpy(pixels))
    assert data_of(page)["sheet"] is not None
    assert "--sheet:url(" in page


def test_a_short_batch_and_a_plan_with_repeats(tmp_path: Path) -> None:
    short = Shuffle(temperature=TEMPERATURE)(U[:-1], V[:-1], batch_size=BATCH, drop_last=False)
    assert "12 batches of 8" in written(tmp_path, short, U[:-1], V[:-1])
    drawn = Shuffle(temperature=TEMPERATURE, replacement="with")(U, V, batch_size=BATCH)
    assert "12 batches of 8" in written(tmp_path, drawn)


BAD: list[tuple[Change, type[Exception], str]] = [
    (lambda: {"plan": None}, TypeError, r"^plan must be a BatchPlan; a loader has none before .* epoch; got NoneType$"),
    (
        lambda: {"u": U[:5]},
        ValueError,
        r"^u must have shape \(N, d\) with N = 96, the samples of the plan; got \(5, 8\)$",
    ),
    (lambda: {"v": V[:, :4]}, ValueError, r"^v must have the shape of u, \(96, 8\); got \(96, 4\)$"),
    (lambda: {"v": V * np.nan}, ValueError, r"^v must hold finite numbers; got others$"),
    (lambda: {"u": 0 * U}, ValueError, r"^u and v must hold embeddings of at least 8 samples, a batch; got 0$"),
    (lambda: {"texts": ["a"]}, ValueError, r"^texts must hold one for each of the 96 samples of the plan; got 1$"),
    (
        lambda: {"labels": np.arange(3)},
        ValueError,
        r"^labels must hold one for each of the 96 samples of the plan; got 3$",
    ),
    (
        lambda: {"labels": np.zeros(96)},
        ValueError,
        r"^labels must hold an integer or a word for each sample; got float64",
    ),
    (lambda: {"images": np.zeros((96, 2, 3))}, TypeError, r"^pixels must hold uint8; got float64$"),
]


@pytest.mark.parametrize(("change", "kind", "words"), BAD)
def test_what_cannot_be(change: Change, kind: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=words):
        written(tmp_path, **change())
    assert not (tmp_path / "new").exists()


def test_losses_of_the_plan_itself_are_not_trusted(tmp_path: Path) -> None:
    page = written(tmp_path, replace(PLAN, losses=PLAN.losses[::-1].copy()))
    (plan,) = data_of(page)["plans"]
    assert plan["losses"] == [float(f"{loss:.4g}") for loss in map(loss_of, PLAN)]
