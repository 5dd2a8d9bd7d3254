"""The batches that can be looked at: their members, pairwise weights and suspected false negatives."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchcut._errors import invalid
from batchcut.selection import BatchPlan, pair_weights, unit_rows

from ._compare import Comparison
from ._pictures import Sheet, thumbnail_sheet
from ._run import Array, Run
from ._samples import Samples

KINDS = ("hardest", "median", "easiest", "shuffled")
_MOST_BYTES = 3_000_000
_MOST_SAMPLES_TO_FIND = 60_000


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownBatch:
    """A batch to look at.

    Attributes:
        number: its row in the plan; None for a shuffled one.
        kind: "hardest", "median", "easiest" or "shuffled".
        members: (B,) samples.
        loss: two-sided contrastive loss by the embeddings that it was planned from.
        weights: (B, B) w(k, l) of the pairs.
        suspects: (B, B) whether k and l are, on average over both ways, as similar as they are to their own positives.
    """

    number: int | None
    kind: str
    members: Array
    loss: float
    weights: Array
    suspects: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownPlan:
    """Some batches of a plan.

    Attributes:
        label: of the group.
        plan: the whole plan.
        batches: those whose embeddings were kept.
        first_epoch: the number of the first epoch on the page.
    """

    label: str
    plan: BatchPlan
    batches: list[ShownBatch]
    first_epoch: int

    def suspected(self, kind: str) -> float:
        """The share of the pairs in the batches of a kind that are suspected to be false negatives."""
        found = [batch.suspects for batch in self.batches if batch.kind == kind]
        pairs = sum(len(one) * (len(one) - 1) for one in found)
        return sum(int(one.sum()) for one in found) / pairs if pairs else float("nan")


def shown_plans(comparison: Comparison) -> list[ShownPlan]:
    """The first and the last plan of the first run of each group that has any."""
    plans = []
    for group in comparison.groups:
        seen = set()
        for name in ("first-plan", "last-plan"):
            found = _shown_plan(group.runs[0], group.label, name)
            if found is not None and found.plan.epoch not in seen:
                plans.append(found)
                seen.add(found.plan.epoch)
    return plans


def _shown_plan(run: Run, label: str, name: str) -> ShownPlan | None:
    kept = run.embeddings(name)
    if kept is None:
        return None
    with run.reading_embeddings(name):
        plan = run.plan(int(kept["epoch"][0]))
        return None if plan is None else plan_with(kept, label, plan)


def plan_with(kept: dict[str, Array], label: str, plan: BatchPlan, *, first_epoch: int = 1) -> ShownPlan:
    """The batches of a plan whose embeddings were kept: those numbered "batches", and "shuffled" ones (n, B) beside.

    "u" and "v" hold the embeddings of the samples "index".
    """
    rows = {int(sample): row for row, sample in enumerate(kept["index"])}
    rank = {int(number): place for place, number in enumerate(np.argsort(plan.losses, kind="stable")[::-1])}
    chosen = sorted((int(number) for number in kept["batches"]), key=rank.__getitem__)
    kinds = _kinds([rank[number] for number in chosen], len(plan))
    batches = []
    for number, kind in zip(chosen, kinds, strict=True):
        members = plan.batches[number][plan.batches[number] >= 0]
        batches.append(_shown(number, kind, members, kept, rows, plan))
    batches += [_shown(None, "shuffled", members, kept, rows, plan) for members in kept["shuffled"]]
    return ShownPlan(label=label, plan=plan, batches=batches, first_epoch=first_epoch)


def _kinds(ranks: list[int], count: int) -> list[str]:
    """To which third, by loss, each of some batches belongs; a batch is of one kind."""
    return [KINDS[min(2, 3 * rank // count)] for rank in ranks]


def _shown(
    number: int | None, kind: str, members: Array, kept: dict[str, Array], rows: dict[int, int], plan: BatchPlan
) -> ShownBatch:
    at = [rows[int(sample)] for sample in members]
    known = np.flatnonzero(np.linalg.norm(kept["u"][at].astype(np.float64), axis=1) > 0)
    weights, suspects = np.zeros((len(at), len(at))), np.zeros((len(at), len(at)), bool)
    loss = float("nan") if number is None else float(plan.losses[number])
    if len(known) >= 2:  # what the bank has not seen yet has no weight
        u, v = (unit_rows(side, kept[side][at][known], dtype=np.float64, at_least=1) for side in ("u", "v"))
        similarity = u @ v.T
        weights[np.ix_(known, known)] = pair_weights(u, v, plan.batch_size, plan.temperature)
        suspects[np.ix_(known, known)] = suspected_pairs(similarity)
        loss = contrastive_loss(similarity / plan.temperature) if number is None else loss
    return ShownBatch(number=number, kind=kind, members=members, loss=loss, weights=weights, suspects=suspects)


def suspected_pairs(similarity: Array) -> Array:
    """(n, n) whether k and l are, on average over both ways, as similar as they are to their own positives."""
    own = similarity.diagonal()
    alike = similarity + similarity.T >= own[:, None] + own[None, :]
    np.fill_diagonal(alike, False)
    return np.asarray(alike)


def contrastive_loss(scores: Array) -> float:
    """The mean over both sides of −log softmax of the positives."""
    there = np.logaddexp.reduce(scores, axis=1) - scores.diagonal()
    back = np.logaddexp.reduce(scores, axis=0) - scores.diagonal()
    return float((there + back).mean() / 2)


def explorer_data(plans: Sequence[ShownPlan], samples: Samples) -> tuple[dict[str, Any], Sheet | None]:
    """What the page's script shows, as plain values, with the thumbnails; as many batches as fit."""
    for each in (64, 16, 8, 4, 2, 1, 0):
        kept = [(plan, _first_of_each_kind(plan, each)) for plan in plans]
        data = [_plan_data(plan, batches) for plan, batches in kept]
        members = [batch.members for _, batches in kept for batch in batches]
        used = np.unique(np.concatenate(members)) if members else np.empty(0, np.int64)
        sheet = thumbnail_sheet(samples.pixels[used]) if samples.pixels is not None and len(used) else None
        size = sum(len(b["weights"]) + len(b["suspects"]) for plan in data for b in plan["batches"])
        if size + (len(sheet.address) if sheet else 0) < _MOST_BYTES:
            break
    facts = {
        "plans": data,
        "kinds": KINDS,
        "samples": used.tolist(),
        "labels": None if samples.labels is None else samples.class_names(used),
        "texts": None if samples.texts is None else _texts_of(samples.texts, used),
        "sheet": None if sheet is None else {"columns": sheet.columns, "rows": sheet.rows},
    }
    return facts, sheet


def _first_of_each_kind(plan: ShownPlan, each: int) -> list[ShownBatch]:
    """At most so many of each kind, the most typical first: the hardest, those next to the middle, the easiest."""
    chosen = []
    for kind in KINDS:
        found = [batch for batch in plan.batches if batch.kind == kind]
        if kind == "easiest":
            found.reverse()
        elif kind == "median":
            places = sorted(range(len(found)), key=lambda place: abs(2 * place - len(found) + 1))
            found = [found[place] for place in places]
        chosen += found[:each]
    return chosen


def _plan_data(plan: ShownPlan, batches: list[ShownBatch]) -> dict[str, Any]:
    top = max((float(batch.weights.max()) for batch in batches), default=1.0) or 1.0
    order = np.argsort(plan.plan.losses, kind="stable")[::-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    place = np.zeros(plan.plan.count, np.uint16)
    for number, members in enumerate(plan.plan):
        place[members] = number + 1
    small = plan.plan.count <= _MOST_SAMPLES_TO_FIND and len(plan.plan) < 1 << 16
    return {
        "label": plan.label,
        "epoch": plan.plan.epoch + plan.first_epoch,
        "count": len(plan.plan),
        "top": round(top, 4),
        "place": _packed(place.astype("<u2").view(np.uint8)) if small else None,
        "losses": [float(f"{loss:.4g}") for loss in plan.plan.losses],
        "ranks": ranks.tolist(),
        "batches": [_batch_data(batch, top) for batch in batches],
    }


def _batch_data(batch: ShownBatch, top: float) -> dict[str, Any]:
    upper = np.triu_indices(len(batch.members), 1)
    return {
        "number": batch.number,
        "kind": batch.kind,
        "loss": round(batch.loss, 4),
        "members": batch.members.tolist(),
        "weights": _packed(np.rint(batch.weights[upper] * (255 / top)).astype(np.uint8)),
        "suspects": _packed(np.packbits(batch.suspects[upper])),
    }


def _packed(values: Array) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _texts_of(texts: list[str], used: Array) -> list[str]:
    if len(used) and used[-1] >= len(texts):
        rule = f"hold a line for each training sample, at least {used[-1] + 1:,} of them"
        raise invalid("--texts", rule, f"{len(texts):,} lines")
    return [texts[index] for index in used]
