"""Cells: a large set is planned in parts, each some whole batches of samples that are alike."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from batchcut._errors import invalid

from ._inputs import Ints
from ._plan import BatchPlan
from ._selector import Selector
from .groups import Groups

MOST_IN_CELL = 131_072
"""Samples of a cell: more make batches hardly harder, and take more memory and longer at a time."""

LEAST_BATCHES_IN_CELL = 8
"""Of a cell: fewer leave nothing to choose from."""

SAMPLES_PER_CENTER = 16
"""That the centres are fitted on, by which samples are put into cells."""


class CellPlan(NamedTuple):
    """The plan of a cell: batches (K, B) of the numbers that samples have in the whole set, and what came out."""

    batches: Ints
    losses: npt.NDArray[Any]
    weights: npt.NDArray[Any]
    facts: dict[str, Any]


def cell_bounds(count: int, batch_size: int, most: int) -> Ints:
    """(C + 1,) places at which cells of whole batches, at most `most` each and as equal as can be, begin and end.

    The last one ends with the samples, in a short batch where B does not divide their number.
    """
    batches = -(-count // batch_size)
    cells = -(-batches // most)
    return np.minimum(np.arange(cells + 1) * batches // cells * batch_size, count)


def cell_starts(counts: Ints, bounds: Ints) -> Ints:
    """(m, C + 1) where each of C cells begins in each of m blocks, and ends in the last column.

    Samples are in the order of the centres, then of the blocks, then of their numbers; cell c has those from place
    bounds[c] to place bounds[c + 1]. `counts` (m, F) says how many samples of each block are nearest to each centre.
    In a block, which is in the order of the centres too, a cell is a run.
    """
    before = np.cumsum(counts, axis=1) - counts  # in the same block, nearest to an earlier centre
    ends = np.cumsum(counts.sum(axis=0))
    starts = np.empty((len(counts), len(bounds)), np.int64)
    for c, bound in enumerate(bounds):
        center = min(int(np.searchsorted(ends, bound, side="right")), counts.shape[1] - 1)
        here = counts[:, center]
        rest = bound - (ends[center] - here.sum())
        starts[:, c] = before[:, center] + np.clip(rest - (np.cumsum(here) - here), 0, here)
    return starts


def plan_samples(
    selector: Selector,
    samples: Ints,
    u: object,
    v: object,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    temperature: float | None,
    groups: Groups | None,
) -> CellPlan:
    """Plans a cell by itself: samples (n,) with these numbers in the whole set, embeddings (n, d) and groups."""
    plan = selector(
        u,
        v,
        batch_size=batch_size,
        seed=seed,
        epoch=epoch,
        groups=groups,
        drop_last=False,
        temperature=temperature,
        samples=samples,
    )
    if plan.repeats or len(plan.left_over) or len(plan) != -(-len(samples) // batch_size):
        raise invalid("selector", "put each sample in one batch", f"{len(plan.left_over)} left over")
    facts = {name: getattr(plan, name) for name in ("method", "temperature", "group_pairs", "margin_pairs")}
    facts["settings"] = dict(plan.settings)
    return CellPlan(np.where(plan.batches >= 0, samples[plan.batches], -1), plan.losses, plan.weights, facts)


def join_cells(
    batches: Ints,
    cells: Sequence[CellPlan],
    *,
    left_over: Ints,
    count: int,
    seed: int,
    epoch: int,
    drop_last: bool,
    started: float,
    stacklevel: int,
) -> BatchPlan:
    """The plan of the whole set: batches (K, B) of all cells, which may be mapped, and what came out in each."""
    losses, weights = (np.concatenate([getattr(cell, name) for cell in cells]) for name in ("losses", "weights"))
    facts = [cell.facts for cell in cells]
    group_pairs = sum(fact["group_pairs"] for fact in facts)
    if group_pairs:
        warnings.warn(
            f"{group_pairs} pairs of one group share a batch: plan.group_pairs counts them",
            RuntimeWarning,
            stacklevel=stacklevel,
        )
    return BatchPlan(
        batches=batches,
        count=count,
        method=facts[0]["method"],
        settings={**facts[0]["settings"], "cells": len(cells)},
        seed=seed,
        epoch=epoch,
        temperature=facts[0]["temperature"],
        drop_last=drop_last,
        repeats=False,
        losses=losses,
        weights=weights,
        left_over=left_over,
        group_pairs=group_pairs,
        margin_pairs=sum(fact["margin_pairs"] for fact in facts),
        seconds=time.perf_counter() - started,
    )


def on_threads(selector: Selector, threads: int) -> Selector:
    """The selector with so many threads, if it says how many at all."""
    if is_dataclass(selector) and any(field.name == "threads" for field in fields(selector)):
        return replace(selector, threads=threads)
    return selector
