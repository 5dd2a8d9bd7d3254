"""Samples of several groups are kept apart by a local search: swaps that pay, nearby first, then a tabu search.

To part the members of all groups into batches of equal size is to colour a graph equitably. Wherever every sample is in
conflict with fewer others than there are batches, that is possible (Hajnal and Szemerédi); beyond, it is hard to tell.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchcut._interrupts import interruptible
from batchcut.selection._inputs import Flags, Ints
from batchcut.selection.compute import kernel

from ._groups import Groups, in_common

Numbers = npt.NDArray[np.uint64]

_OPENED, _GLANCED = 32, 4096  # batches that one sample looks for a partner in, and that it asks whether it may come
_TRIED = 48  # random batches in a step of the tabu search
_LEAST_PATIENCE, _PATIENCE, _MOST_STEPS = 2000, 20, 40_000  # steps without a gain: these, and so many per conflict left
_REST, _REST_AT_RANDOM = 4, 8  # steps for which samples that were swapped stay where they are


class Layout(NamedTuple):
    """Where samples are, and what that costs: a conflict is a group that two samples of a batch have in common.

    Attributes:
        batches: (K, B) samples; a short batch ends in -1.
        home: (N,) the batch of each sample; -1 for one in none.
        own: (N,) conflicts of each sample with others of its batch.
        starts: (N + 1,) as in `Groups`.
        codes: (M,) as in `Groups`.
        first: (number + 1,) where the members of each group begin.
        members: (M,) samples by group.
        large: (number,) the row in `held` of a group with more members than there are batches; -1 of others.
        held: (L, K) how many of each large group a batch has: looking at all members each time would take too long.
        share: (L,) the most of each large group that a batch has where it is spread evenly.
        seen: (number,) scratch, all zero: how many of each group one batch has.
        near: (K,) scratch, all zero: conflicts that one sample would have in each batch, large groups apart.
    """

    batches: Ints
    home: Ints
    own: Ints
    starts: Ints
    codes: Ints
    first: Ints
    members: Ints
    large: Ints
    held: Ints
    share: Ints
    seen: Ints
    near: Ints


def repair(batches: Ints, groups: Groups) -> Ints:
    """Returns `batches` (K, B) after swaps that leave few conflicts, none if the search finds how.

    First each sample in conflict is swapped with one of the nearest batch where that pays, so that an order of similar
    batches stays one. What then is left is given to a tabu search. It ends where no conflict is left but those that
    groups with more members than batches must have.
    """
    layout = _layout(batches.copy(), groups)
    total = int(interruptible(_measure, layout))
    least = _least(groups, layout.home, len(batches))
    if total > least:
        total -= int(interruptible(_descend, layout, least, total))
    if total > least and len(batches) > 1:
        interruptible(_wander, layout, least, total, np.array([0x9E3779B97F4A7C15], np.uint64))
    return layout.batches


def _layout(batches: Ints, groups: Groups) -> Layout:
    count, rows = len(groups), len(batches)
    home = np.full(count, -1)
    filled = batches >= 0
    home[batches[filled]] = np.nonzero(filled)[0]
    first, members = groups.members
    wide = np.diff(first) > rows
    large = np.where(wide, np.cumsum(wide) - 1, -1)
    return Layout(
        batches=batches,
        home=home,
        own=np.zeros(count, np.int64),
        starts=groups.starts,
        codes=groups.codes,
        first=first,
        members=members,
        large=large,
        held=np.zeros((int(wide.sum()), rows), np.int64),
        share=-(-np.diff(first)[wide] // rows),
        seen=np.zeros(groups.number, np.int64),
        near=np.zeros(rows, np.int64),
    )


def _least(groups: Groups, home: Ints, rows: int) -> int:
    """The conflicts that there must be: those of each group by itself, spread evenly."""
    used = np.repeat(home >= 0, np.diff(groups.starts))
    whole, rest = np.divmod(np.bincount(groups.codes[used], minlength=groups.number), rows)
    return int((rest * (whole + 1) * whole // 2 + (rows - rest) * whole * (whole - 1) // 2).sum())


@kernel
def _note(layout: Layout, b: int, step: int) -> None:
    """Adds the members of batch b to `seen`, or takes them away."""
    for sample in layout.batches[b]:
        if sample >= 0:
            _note_one(layout, sample, step)


@kernel
def _note_one(layout: Layout, sample: int, step: int) -> None:
    for place in range(layout.starts[sample], layout.starts[sample + 1]):
        layout.seen[layout.codes[place]] += step


@kernel
def _with_seen(layout: Layout, sample: int) -> int:
    """Conflicts of a sample with those that were noted."""
    found = 0
    for place in range(layout.starts[sample], layout.starts[sample + 1]):
        found += layout.seen[layout.codes[place]]
    return found


@kernel
def _look_around(layout: Layout, sample: int, step: int) -> None:
    """Adds the conflicts that a sample would have in each batch to `near`, or takes them away."""
    for place in range(layout.starts[sample], layout.starts[sample + 1]):
        group = layout.codes[place]
        if layout.large[group] < 0:
            for at in range(layout.first[group], layout.first[group + 1]):
                other = layout.members[at]
                if other != sample and layout.home[other] >= 0:
                    layout.near[layout.home[other]] += step


@kernel
def _there(layout: Layout, sample: int, b: int) -> int:
    """Conflicts of a sample that looked around with all of a batch that is not its own."""
    found = int(layout.near[b])
    if len(layout.held):
        for place in range(layout.starts[sample], layout.starts[sample + 1]):
            row = layout.large[layout.codes[place]]
            if row >= 0:
                found += layout.held[row, b]
    return found


@kernel
def _measure(layout: Layout) -> int:
    """Fills in `own` and `held`; returns the number of conflicts."""
    total = 0
    for b in range(len(layout.batches)):
        _note(layout, b, 1)
        for sample in layout.batches[b]:
            if sample < 0:
                continue
            _note_one(layout, sample, -1)
            layout.own[sample] = _with_seen(layout, sample)
            _note_one(layout, sample, 1)
            total += layout.own[sample]
            _move_held(layout, sample, -1, b)
        _note(layout, b, -1)
    return total // 2


@kernel
def _is_open(layout: Layout, sample: int) -> bool:
    """Whether a sample has a conflict beyond those that members of a large group have where it is spread evenly.

    Without this, each of them would ask thousands of batches in vain.
    """
    own = layout.own[sample]
    if own > 0 and len(layout.held):
        for place in range(layout.starts[sample], layout.starts[sample + 1]):
            row = layout.large[layout.codes[place]]
            if row >= 0:
                own -= min(layout.held[row, layout.home[sample]], layout.share[row]) - 1
    return bool(own > 0)


@kernel
def _move_held(layout: Layout, sample: int, source: int, target: int) -> None:
    if len(layout.held):
        for place in range(layout.starts[sample], layout.starts[sample + 1]):
            row = layout.large[layout.codes[place]]
            if row >= 0:
                layout.held[row, target] += 1
                if source >= 0:
                    layout.held[row, source] -= 1


@kernel
def _replace(layout: Layout, b: int, leaves: int, enters: int) -> None:
    """Puts one sample in the place of another, and counts conflicts in the batch anew."""
    own, fresh = layout.own, 0
    for slot in range(layout.batches.shape[1]):
        other = layout.batches[b, slot]
        if other == leaves:
            layout.batches[b, slot] = enters
        elif other >= 0:
            own[other] -= in_common(layout.starts, layout.codes, other, leaves)
            shared = in_common(layout.starts, layout.codes, other, enters)
            own[other] += shared
            fresh += shared
    own[enters] = fresh
    _move_held(layout, enters, layout.home[enters], b)


@kernel
def _swap(layout: Layout, s: int, t: int) -> None:
    a, b = layout.home[s], layout.home[t]
    _replace(layout, a, s, t)
    _replace(layout, b, t, s)
    layout.home[s], layout.home[t] = b, a


@kernel
def _change(layout: Layout, s: int, t: int, there: int) -> int:
    """By how much a swap changes the number of conflicts; s has looked around, and those it leaves were noted."""
    if there > 0:
        there -= in_common(layout.starts, layout.codes, s, t)
    return int(there + _with_seen(layout, t) - layout.own[s] - layout.own[t])


@kernel
def _partner_nearby(layout: Layout, s: int) -> tuple[int, int]:
    """A sample whose swap with s pays, in the nearest batch that has one, the best there; and the change. Or -1, 0."""
    a, rows = layout.home[s], len(layout.batches)
    opened = 0
    for distance in range(1, min(rows, _GLANCED)):
        for b in (a - distance, a + distance):
            if b < 0 or b >= rows:
                continue
            there = _there(layout, s, b)
            if there >= layout.own[s]:
                continue
            partner, least = -1, 0
            for t in layout.batches[b]:
                if t >= 0:
                    change = _change(layout, s, t, there)
                    if change < least:
                        partner, least = t, change
            if partner >= 0:
                return partner, least
            opened += 1
            if opened == _OPENED:
                return -1, 0
    return -1, 0


@kernel
def _descend(layout: Layout, least: int, total: int) -> int:
    """Swaps samples in conflict with such nearby as pay, as long as any do; returns how many conflicts are gone."""
    gone, before = 0, -1
    while gone > before and total - gone > least:
        before = gone
        for a in range(len(layout.batches)):
            for slot in range(layout.batches.shape[1]):
                s = layout.batches[a, slot]
                if s < 0 or not _is_open(layout, s):
                    continue
                _prepare(layout, s, 1)
                t, change = _partner_nearby(layout, s)
                _prepare(layout, s, -1)
                if t >= 0:
                    _swap(layout, s, t)
                    gone -= change
    return gone


@kernel
def _prepare(layout: Layout, s: int, step: int) -> None:
    """Lets s look around, and notes those of its batch without it; or takes both back."""
    _look_around(layout, s, step)
    _note(layout, layout.home[s], step)
    _note_one(layout, s, -step)


@kernel
def _draw(state: Numbers, below: int) -> int:
    """A whole number below another, by a linear congruence: the same each time, since the search takes no seed."""
    state[0] = state[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return int(state[0] >> np.uint64(33)) % below


@kernel
def _partner_anywhere(
    layout: Layout,
    s: int,
    rests: Ints,
    step: int,
    bar: int,
    state: Numbers,
) -> tuple[int, int]:
    """A sample whose swap with s changes least, and the change, in all batches or some drawn at random; or -1, 0.

    Samples that rest are left out, unless the change is below `bar`.
    """
    rows, partner, least, equal = len(layout.batches), -1, 1 << 40, 0
    tries = min(rows, _TRIED)
    for n in range(tries):
        b = n if rows == tries else _draw(state, rows)
        if b == layout.home[s]:
            continue
        there = _there(layout, s, b)
        for t in layout.batches[b]:
            if t < 0:
                continue
            change = _change(layout, s, t, there)
            if change > least or (rests[t] > step and change >= bar):
                continue
            equal = equal + 1 if change == least else 1
            if change < least or _draw(state, equal) == 0:
                partner, least = t, change
    return partner, least


@kernel
def _list_open(layout: Layout, b: int, open_: Ints, listed: Flags, count: int) -> int:
    """Lists the samples of a batch that are in conflict; returns how many are listed."""
    for sample in layout.batches[b]:
        if sample >= 0 and layout.own[sample] > 0 and not listed[sample]:
            listed[sample] = True
            open_[count] = sample
            count += 1
    return count


@kernel
def _wander(layout: Layout, least: int, total: int, state: Numbers) -> None:
    """Swaps a sample in conflict, drawn at random, with the best partner, though it may not pay, time and again.

    Samples swapped rest for some steps, so that the next ones do not undo it. The best state met is that at the end.
    """
    count = len(layout.home)
    open_, listed, rests = np.empty(count, np.int64), np.zeros(count, np.bool_), np.zeros(count, np.int64)
    log, made, kept, best, best_step, listing = np.empty((_MOST_STEPS, 2), np.int64), 0, 0, total, 0, 0
    for b in range(len(layout.batches)):
        listing = _list_open(layout, b, open_, listed, listing)
    for step in range(_MOST_STEPS):
        if best <= least or listing == 0 or step - best_step > _LEAST_PATIENCE + _PATIENCE * (best - least):
            break
        place = _draw(state, listing)
        s = open_[place]
        if layout.own[s] == 0:
            listed[s] = False
            listing -= 1
            open_[place] = open_[listing]
            continue
        _prepare(layout, s, 1)
        t, change = _partner_anywhere(layout, s, rests, step, best - total, state)
        _prepare(layout, s, -1)
        if t < 0:
            continue
        _swap(layout, s, t)
        log[made, 0], log[made, 1] = s, t
        made += 1
        total += change
        rests[s] = step + _REST + _draw(state, _REST_AT_RANDOM)
        rests[t] = step + _REST + _draw(state, _REST_AT_RANDOM)
        for sample in (s, t):
            listing = _list_open(layout, layout.home[sample], open_, listed, listing)
        if total < best:
            best, best_step, kept = total, step, made
    while made > kept:
        made -= 1
        _swap(layout, log[made, 0], log[made, 1])
