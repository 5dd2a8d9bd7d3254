"""One page of HTML from a plan and embeddings, whatever trains: what a batch holds, and what shuffled ones would."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from batchcut._errors import invalid, wrong_type
from batchcut._files import check_target
from batchcut.selection import (
    BatchPlan,
    Groups,
    as_array,
    prospects,
    read_groups,
    shuffled_beside,
    typical_batches,
    unit_rows,
)

from ._charts import histograms
from ._coverage import chance_of_same_class, same_class_share
from ._explorer import KINDS, ShownPlan, contrastive_loss, explorer_data, plan_with, suspected_pairs
from ._page import filled, script_data, write_page
from ._run import Array
from ._samples import Samples, given_samples
from ._svg import key_mark, number, percent

_SHOWN = 4096  # samples whose batches can be looked at
_PLANNED, _SHUFFLED = 3, 0  # the styles of their lines
_SAME = 1e-3  # losses that differ by a smaller share are those of the same embeddings


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Batches by given embeddings.

    Attributes:
        losses: (K,) of the batches, over those of their samples that have an embedding.
        suspected: the share of pairs as similar as a sample and its own positive among the pairs in batches.
        same_class: the share of pairs of one class; not a number where no classes are known.
    """

    losses: Array
    suspected: float
    same_class: float


def write_plan_report(
    plan: BatchPlan,
    u: object,
    v: object,
    out: str | Path,
    *,
    texts: object = None,
    images: object = None,
    labels: object = None,
    groups: object = None,
    title: str = "batchcut plan",
) -> Path:
    """Writes a page on the batches of a plan and returns its path; nothing else of a training is needed.

    Planned and shuffled batches are both measured by the embeddings given. In training there is a plan from the first
    planned epoch on, and a bank with the last embeddings:

        write_plan_report(loader.plan, loader.bank.u, loader.bank.v, "plan.html")

    `loader` is the `PlannedLoader` of a plain loop, of Lightning or of accelerate; or `trainer.sampler` of a
    `PlanningTrainer`; or, with sentence-transformers, `planned.samplers[0]` of `planned = PlannedTexts(trainer)`, to
    which `texts=dataset["anchor"]` adds what the samples are.

    Args:
        plan: The batches.
        u: (N, d) embeddings of one side, array or tensor; a row of zeros is a sample that has none yet.
        v: (N, d) those of the other.
        out: The HTML file; folders on the way are made.
        texts: A text for each sample, to be shown.
        images: (N, C, H, W) uint8 pixels, C = 1 or 3, to be shown.
        labels: A class for each sample, an integer or a word.
        groups: Those that the plan was made with, so that shuffled batches keep them apart, too; `sampler.groups`.
        title: Of the page.
    """
    target = Path(out)
    check_target("out", target)
    given: object = plan
    if not isinstance(given, BatchPlan):
        raise wrong_type("plan", "be a BatchPlan; a loader has none before its first planned epoch", given)
    sides = _sides(plan, u, v)
    samples = given_samples(plan.count, texts, images, labels)
    return write_page(
        filled("plan.html", title=title, **_content(plan, *sides, samples, read_groups(groups, plan.count))), target
    )


def _sides(plan: BatchPlan, u: object, v: object) -> tuple[Array, Array]:
    """The embeddings as arrays, one row for each sample of the plan."""
    left, right = as_array("u", u), as_array("v", v)
    for name, side in (("u", left), ("v", right)):
        if side.ndim != 2 or len(side) != plan.count:
            raise invalid(name, f"have shape (N, d) with N = {plan.count}, the samples of the plan", side.shape)
        if not np.isfinite(side).all():
            raise invalid(name, "hold finite numbers", "others")
    if left.shape != right.shape:
        raise invalid("v", f"have the shape of u, {left.shape}", right.shape)
    return left, right


def _content(plan: BatchPlan, u: Array, v: Array, samples: Samples, groups: Groups | None) -> dict[str, Any]:
    known = np.flatnonzero(np.any(u != 0, axis=1) & np.any(v != 0, axis=1))
    if len(known) < plan.batch_size:
        raise invalid("u and v", f"hold embeddings of at least {plan.batch_size} samples, a batch", len(known))
    every = len(known) == plan.count
    shuffled = _shuffled(plan, u, v, known, None if groups is None else groups.of(known))
    measured, beside = (_measured(one, u, v, samples.labels) for one in (plan, shuffled))
    now = replace(plan, losses=measured.losses)
    now = now.measured(u, v) if every else now
    shown = plan_with(_kept(now, shuffled, u, v), plan.method, now, first_epoch=0)  # as loops count, and the summary
    data, sheet = explorer_data([shown], samples)
    drawn = [("Shuffle", _SHUFFLED, beside.losses), (plan.method, _PLANNED, measured.losses)]
    (histogram,) = histograms({"Loss of each batch": drawn})
    then = plan if not np.allclose(plan.losses, measured.losses, rtol=_SAME, atol=_SAME) else None
    return {
        "finding": " ".join(prospects(u, v, now, groups=groups).sentences if every else ()) or _few(len(known), plan),
        "setting": _setting(plan),
        "summary": (now if then is None else plan).summary(),
        "figures": _figures(now, measured, shuffled, beside, then),
        "then": then is not None,
        "negatives": _negatives(shown, measured, beside, samples),
        "rows": [
            {"label": plan.method, "key": key_mark(_PLANNED, marked=False)},
            {"label": "Shuffle", "key": key_mark(_SHUFFLED, marked=False)},
        ],
        "histogram": histogram,
        "samples": samples,
        "sheet": sheet,
        "explorer": script_data(data) if data["samples"] else "",
    }


def _few(known: int, plan: BatchPlan) -> str:
    return (
        f"{known:,} of {plan.count:,} samples have an embedding. Losses are those of these; what a step on a batch is "
        "worth is not measured before all have one."
    )


def _shuffled(plan: BatchPlan, u: Array, v: Array, known: Array, groups: Groups | None) -> BatchPlan:
    """Random batches of the same size, seed and epoch, of the samples that have an embedding, by their groups."""
    random = shuffled_beside(plan, u[known], v[known], groups=groups)
    return random.within(known, plan.count, drop_last=plan.drop_last)


def _measured(plan: BatchPlan, u: Array, v: Array, labels: Array | None) -> Measured:
    losses, suspects, pairs = np.zeros(len(plan)), 0, 0
    for place, members in enumerate(plan):
        rows = members[np.any(u[members] != 0, axis=1) & np.any(v[members] != 0, axis=1)]
        if len(rows) < 2:  # nothing to be told apart
            continue
        left, right = (unit_rows(name, side[rows], dtype=np.float64) for name, side in (("u", u), ("v", v)))
        similarity = left @ right.T
        losses[place] = contrastive_loss(similarity / plan.temperature)
        suspects += int(suspected_pairs(similarity).sum())
        pairs += len(rows) * (len(rows) - 1)
    return Measured(losses=losses, suspected=suspects / max(1, pairs), same_class=same_class_share(plan, labels))


def _kept(plan: BatchPlan, shuffled: BatchPlan, u: Array, v: Array) -> dict[str, Array]:
    """What the explorer shows: a quarter each of the hardest batches, median, easiest and shuffled ones."""
    each = max(1, _SHOWN // (len(KINDS) * plan.batch_size))
    chosen = typical_batches(plan.losses, each)
    beside = shuffled.batches[(shuffled.batches >= 0).all(axis=1)][:each]
    used = np.unique(np.concatenate([plan.batches[chosen].ravel(), beside.ravel()]))
    index = used[used >= 0]
    return {"batches": chosen, "shuffled": beside, "index": index, "u": u[index], "v": v[index]}


def _figures(
    plan: BatchPlan, measured: Measured, shuffled: BatchPlan, beside: Measured, then: BatchPlan | None
) -> dict[str, Any]:
    """The table of what came out: columns and rows of text; with what was so when it was planned, if that differs."""
    worth = ["not measured" if one is None or one.effective is None else str(one.effective) for one in (plan, then)]
    rows: list[list[Any]] = [
        ["mean loss", number(plan.mean_loss), number(float(beside.losses.mean())), then and number(then.mean_loss)],
        ["largest loss", *(number(float(losses.max())) for losses in (measured.losses, beside.losses))],
        ["effective batch size", worth[0], str(plan.batch_size), then and worth[1]],
        ["batches", f"{len(plan):,}", f"{len(shuffled):,}"],
        ["samples in a batch", percent(plan.coverage), percent(shuffled.coverage)],
        ["seconds to plan", number(plan.seconds), number(shuffled.seconds)],
    ]
    rows[1].append(then and number(float(then.losses.max())))
    columns = ["figure", plan.method, "Shuffle", *(["when it was planned"] if then else [])]
    return {"columns": columns, "rows": [_row(row, len(columns)) for row in rows]}


def _row(cells: list[Any], width: int) -> list[str]:
    """As many cells as there are columns; a dash for what there is not."""
    return [str(cell or "–") for cell in [*cells, None][:width]]


def _negatives(shown: ShownPlan, measured: Measured, beside: Measured, samples: Samples) -> dict[str, Any]:
    """Shares of pairs in batches that may be false negatives: of all batches, and of those of each kind shown."""
    plan, classes = shown.plan, samples.labels is not None
    pairs = max(1, sum(len(members) * (len(members) - 1) // 2 for members in plan))
    margin = None if plan.settings.get("margin") is None else percent(plan.margin_pairs / pairs)
    rows: list[list[Any]] = [
        [f"{plan.method}, all batches", percent(measured.suspected), margin, percent(plan.group_pairs / pairs)],
        *([f"{plan.method}, {kind}", percent(shown.suspected(kind)), None, None] for kind in KINDS[:3]),
        ["Shuffle, all batches", percent(beside.suspected), None, None],
    ]
    if classes:
        rows[0].append(percent(measured.same_class))
        rows[-1].append(percent(beside.same_class))
    columns = ["batches", "suspected", "within the margin", "of one group", *(["of one class"] if classes else [])]
    chance = percent(chance_of_same_class(samples.labels)) if classes else ""
    return {"columns": columns, "rows": [_row(row, len(columns)) for row in rows], "chance": chance}


def _setting(plan: BatchPlan) -> str:
    return (
        f"{plan.count:,} samples, {len(plan):,} batches of {plan.batch_size}, temperature {plan.temperature:g}, "
        f"seed {plan.seed}, epoch {plan.epoch}"
    )
