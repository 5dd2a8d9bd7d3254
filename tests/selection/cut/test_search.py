import os
import signal
import threading
import time
from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.selection._interrupts import interrupted_after

import batchcut as bc
from batchcut._interrupts import interrupts_kept
from batchcut.selection._inputs import unit_pairs
from batchcut.selection._weights import Weighting
from batchcut.selection.compute import crew_of
from batchcut.selection.cut import _tuning as tuning
from batchcut.selection.cut._seek import seek

MakePairs = Callable[..., tuple[Any, Any]]


@pytest.mark.filterwarnings("ignore:.* of the groups have more members")
@pytest.mark.slow
@settings(max_examples=40)
@given(st.data())
def test_cut_never_weighs_less_than_the_shuffle(make_pairs: MakePairs, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 9))
    count = data.draw(st.integers(size, 70))
    u, v = make_pairs(
        count,
        data.draw(st.integers(1, 6)),
        seed=data.draw(st.integers(0, 99)),
        copies=data.draw(st.sampled_from([0, 2, count])),
    )
    groups = data.draw(st.none() | st.lists(st.integers(0, 9), min_size=count, max_size=count))
    request: dict[str, Any] = {
        "batch_size": size,
        "seed": data.draw(st.integers(0, 9)),
        "groups": groups,
        "drop_last": data.draw(st.booleans()),
    }
    tau, margin = data.draw(st.sampled_from([0.02, 0.1, 1.0])), data.draw(st.sampled_from([None, 0.1]))
    cut = bc.Cut(temperature=tau, margin=margin, pool=data.draw(st.sampled_from([None, 2])))
    plan = cut(u, v, **request)
    random = bc.Shuffle(temperature=tau)(u, v, **request)
    weights = bc.selection.pair_weights(u, v, size, tau, margin=margin)
    total = [sum(weights[np.ix_(batch, batch)].sum() / 2 for batch in chosen) for chosen in (plan, random)]
    assert total[0] >= total[1] * (1 - 1e-5) - 1e-5
    assert plan.total_weight == pytest.approx(total[0], rel=1e-3, abs=1e-4)
    assert plan.group_pairs <= random.group_pairs


def test_the_whole_set_never_weighs_less_either(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(512, clusters=20)
    monkeypatch.setattr("batchcut.selection.cut._search._is_small", lambda _: False)
    random = bc.Shuffle()(u, v, batch_size=8)
    assert bc.Cut(margin=None)(u, v, batch_size=8).total_weight > 1.5 * random.total_weight
    easy = bc.Cut(margin=None)(u, v, batch_size=8).batches.T.reshape(-1, 8)  # one sample of each of eight batches
    monkeypatch.setattr("batchcut.selection.cut._search.search_whole", lambda *_: easy)
    assert bc.Cut(margin=None)(u, v, batch_size=8).total_weight > random.total_weight


def test_a_set_is_kept_whose_weight_is_in_its_last_batches(
    make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    u, v = make_pairs(512, clusters=20)
    monkeypatch.setattr("batchcut.selection.cut._search._is_small", lambda _: False)
    cut, random = bc.Cut(margin=None, temperature=10.0), bc.Shuffle(temperature=10.0)(u, v, batch_size=8)
    plan = cut(u, v, batch_size=8)
    rows = plan.batches[np.argsort(plan.weights)]
    assert np.sort(plan.weights)[:56].sum() < random.total_weight < plan.total_weight
    monkeypatch.setattr("batchcut.selection.cut._search.search_whole", lambda *_: rows)
    np.testing.assert_array_equal(cut(u, v, batch_size=8).batches, rows)


def test_many_samples_are_searched_in_smaller_pools(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(12_800, 16, clusters=100)
    usual = bc.Cut(rounds=4)(u, v, batch_size=16)
    monkeypatch.setattr(tuning, "MANY", 12_799)
    plans = [bc.Cut(rounds=4, threads=threads)(u, v, batch_size=16) for threads in (1, 2)]
    np.testing.assert_array_equal(plans[0].batches, plans[1].batches)
    assert sorted(plans[0].batches.ravel()) == list(range(12_800))
    assert plans[0] != usual
    assert plans[0].mean_loss > 0.95 * usual.mean_loss


def test_pools_keep_their_samples(make_pairs: MakePairs) -> None:
    u, v = make_pairs(96, clusters=6)
    plan, random = (s(u, v, batch_size=8, seed=2) for s in (bc.Cut(margin=None, pool=4), bc.Shuffle()))
    for start in range(0, 12, 4):
        rows = slice(start, start + 4)
        assert sorted(plan.batches[rows].ravel()) == sorted(random.batches[rows].ravel())
        assert plan.weights[rows].sum() > random.weights[rows].sum()


def test_light_weights_are_searched_to_the_end(make_pairs: MakePairs) -> None:
    u, v = make_pairs(320, 64, clusters=16)
    plan = bc.Cut(margin=None, temperature=0.008)(u, v, batch_size=16)
    weights = bc.selection.pair_weights(u, v, 16, 0.008)
    member = np.zeros((320, 20))
    member[plan.batches.ravel(), np.repeat(np.arange(20), 16)] = 1
    sums = weights @ member
    own, there = (sums * member).sum(axis=1), sums @ member.T  # there[i, j]: the weight of i with j's batch
    gain = there + there.T - own[:, None] - own - 2 * weights
    assert sums.max() < 0.01
    assert gain[member @ member.T == 0].max() < 1e-3 * sums.max()


def test_hardness_grows_with_the_pool(make_pairs: MakePairs) -> None:
    u, v = make_pairs(4096, 16, clusters=100)
    losses = [bc.Cut(margin=None, pool=pool)(u, v, batch_size=16).mean_loss for pool in (2, 8, 64, None)]
    assert losses == sorted(losses)
    assert losses[-1] > 1.5 * losses[0]


@pytest.mark.parametrize("size", [4, 8, 16])
def test_the_whole_set_is_harder_than_half_of_it_also_without_clusters(make_pairs: MakePairs, size: int) -> None:
    u, v = make_pairs(3200, 64)
    weights = [bc.Cut(pool=pool)(u, v, batch_size=size).total_weight for pool in (1600 // size, None)]
    assert weights[1] > weights[0]


@pytest.mark.parametrize(("dim", "margin"), [(2, 0.05), (32, 0.05), (32, 0.3)])
def test_sides_that_are_not_aligned_get_no_less_than_random_pools_give(
    make_pairs: MakePairs, dim: int, margin: float
) -> None:
    u, v = make_pairs(4096, dim, clusters=50)
    v = v[np.random.default_rng(0).permutation(len(v))]
    weights = [bc.Cut(margin=margin, pool=pool)(u, v, batch_size=16).total_weight for pool in (32, None)]
    assert weights[1] > 0.97 * weights[0]


def test_rounds_help(make_pairs: MakePairs) -> None:
    u, v = make_pairs(4096, 16, clusters=100)
    for pool in (None, 32):
        weights = [bc.Cut(margin=None, rounds=rounds, pool=pool)(u, v, batch_size=16).total_weight for rounds in (1, 6)]
        assert weights[1] > weights[0]


@pytest.mark.parametrize(("clusters", "rounds"), [(100, 1), (0, 4)])
def test_there_are_as_many_rounds_as_pay(make_pairs: MakePairs, clusters: int, rounds: int) -> None:
    u, v = make_pairs(6400, 32, clusters=clusters)
    usual, named = bc.Cut()(u, v, batch_size=32), bc.Cut(rounds=rounds)(u, v, batch_size=32)
    np.testing.assert_array_equal(usual.batches, named.batches)


def best_weight(weights: Any, left: frozenset[int]) -> Any:
    if not left:
        return 0.0
    i = min(left)
    return max(
        weights[i, j] + weights[i, k] + weights[j, k] + best_weight(weights, left - {i, j, k})
        for j, k in combinations(sorted(left - {i}), 2)
    )


def test_small_cases_are_solved_almost_always(make_pairs: MakePairs) -> None:
    good = 0
    for seed in range(20):
        u, v = make_pairs(12, 4, seed=seed)
        weights = bc.selection.pair_weights(u, v, 3, 0.1)
        best = best_weight(weights, frozenset(range(12)))
        good += bc.Cut(margin=None)(u, v, batch_size=3).total_weight >= 0.99 * best
    assert good >= 19


@pytest.mark.parametrize(("count", "pool"), [(6000, None), (1024, 16), (200, None)])
def test_threads_do_not_matter(make_pairs: MakePairs, count: int, pool: int | None) -> None:
    u, v = make_pairs(count, 16, clusters=30)
    plans = [bc.Cut(threads=threads, pool=pool)(u, v, batch_size=16) for threads in (1, 2, 5)]
    for plan in plans[1:]:
        np.testing.assert_array_equal(plan.batches, plans[0].batches)
        np.testing.assert_array_equal(plan.losses, plans[0].losses)


@pytest.mark.filterwarnings("ignore:.* of the groups have more members")
@settings(max_examples=30)
@given(st.data())
def test_names_of_samples_do_not_matter(make_pairs: MakePairs, data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 9))
    count = size * data.draw(st.integers(1, 12))
    short = data.draw(st.integers(0, size - 1))
    u, v = make_pairs(count + short, 4, seed=data.draw(st.integers(0, 99)), copies=data.draw(st.sampled_from([0, 4])))
    groups = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(u), max_size=len(u))))
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(u))
    request: dict[str, Any] = {"batch_size": size, "seed": data.draw(st.integers(0, 9)), "drop_last": False}
    cut = bc.Cut(margin=data.draw(st.sampled_from([None, 0.1])))
    plan = cut(u, v, groups=groups, **request)
    renamed = cut(u[order], v[order], groups=groups[order], **request)
    np.testing.assert_array_equal(renamed.losses, plan.losses)
    there = plan.batches >= 0
    np.testing.assert_array_equal(u[order[renamed.batches[there]]], u[plan.batches[there]])  # copies are as good


@pytest.mark.parametrize(("count", "size", "aligned"), [(2000, 8, True), (3000, 16, True), (3000, 16, False)])
def test_names_of_many_samples_do_not_matter_either(
    make_pairs: MakePairs, count: int, size: int, aligned: bool
) -> None:
    u, v = make_pairs(count, 16)
    if not aligned:
        v = np.roll(v, 1, axis=0)
    order = np.random.default_rng(1).permutation(count)
    plan, renamed = (bc.Cut()(u[o], v[o], batch_size=size, drop_last=False) for o in (slice(None), order))
    np.testing.assert_array_equal(np.where(renamed.batches >= 0, order[renamed.batches], -1), plan.batches)


@pytest.mark.parametrize(("count", "common"), [(640, 1.0), (6400, 0.8)])
def test_rounding_hardly_matters(make_pairs: MakePairs, count: int, common: float) -> None:
    u, v = (side.astype(np.float32) for side in make_pairs(count, 32, clusters=100))
    plans = [bc.Cut()(side, v, batch_size=16) for side in (u, np.nextafter(u, np.float32(2)))]
    first, second = ({frozenset(batch) for batch in plan.batches.tolist()} for plan in plans)
    assert len(first & second) >= common * len(first)


@pytest.mark.parametrize("clusters", [0, 100])
def test_names_of_very_many_samples_hardly_matter(make_pairs: MakePairs, clusters: int) -> None:
    u, v = make_pairs(12_000, 16, clusters=clusters)
    order = np.random.default_rng(1).permutation(len(u))
    loss, renamed = (bc.Cut()(u[o], v[o], batch_size=16).mean_loss for o in (slice(None), order))
    assert renamed == pytest.approx(loss, rel=0.02)


def test_a_shuffle_that_outweighs_the_search_is_taken(make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v = make_pairs(64, clusters=8)
    shuffled = bc.Shuffle()(u, v, batch_size=8).batches
    easy = bc.Cut(margin=None)(u, v, batch_size=8).batches.T  # one sample of each of eight batches
    monkeypatch.setattr("batchcut.selection.cut._search.search_pools", lambda *_, **__: easy)
    np.testing.assert_array_equal(bc.Cut(margin=None)(u, v, batch_size=8).batches, shuffled)


def test_margin_takes_the_weight_of_copies(make_pairs: MakePairs) -> None:
    u, v = make_pairs(64, 16, copies=8)
    drawn = bc.Cut(margin=None)(u, v, batch_size=8)
    guarded = bc.Cut(margin=0.0)(u, v, batch_size=8)
    assert max((batch < 8).sum() for batch in drawn) == 8
    assert max((batch < 8).sum() for batch in guarded) < 8
    assert guarded.margin_pairs < 28


@pytest.mark.parametrize("selector", [bc.Cut, bc.Spectral, bc.Shuffle])
def test_margins_beyond_all_similarities(make_pairs: MakePairs, selector: Any) -> None:
    u, v = make_pairs(32)
    for large, small in ((1e300, 3.0), (-1e300, -3.0)):
        batches = [selector(margin=margin)(u, v, batch_size=8).batches.tolist() for margin in (large, small)]
        assert batches[0] == batches[1]


@pytest.mark.parametrize(
    ("count", "rounds", "pool", "least"), [(6000, 4, None, 5), (1600, 20, None, 20), (1600, 2, 5, 5)]
)
def test_progress_rises_to_one(make_pairs: MakePairs, count: int, rounds: int, pool: int | None, least: int) -> None:
    u, v = make_pairs(count, 8)
    told: list[float] = []
    bc.Cut(rounds=rounds, pool=pool, threads=2)(u, v, batch_size=16, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(told) > least


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pool", [None, 5])
def test_endless_rounds_tell_how_far_they_are(make_pairs: MakePairs, pool: int | None, threads: int) -> None:
    told: list[float] = []

    def note(share: float) -> None:
        told.append(share)
        if len(told) == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bc.Cut(rounds=10**9, pool=pool, threads=threads)(*make_pairs(320, 8), batch_size=16, progress=note)
    assert told == sorted(told)
    assert 0 < told[-1] < 1e-3


def test_an_error_in_progress_stops_the_work(make_pairs: MakePairs) -> None:
    u, v = make_pairs(6000, 8)

    def stop(share: float) -> None:
        raise RuntimeError(f"stopped at {share:.2f}")

    with pytest.raises(RuntimeError, match="stopped at 0"):
        bc.Cut(threads=2)(u, v, batch_size=16, progress=stop)


def interrupted_during(monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[], object]) -> float:
    """The seconds that work goes on after a Ctrl-C that comes a little after the first call of a function."""
    sent: list[float] = []
    begun: list[bool] = []
    module, function = name.split(".")
    original = getattr(import_module(f"batchcut.selection.cut.{module}"), function)

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    def called(*arguments: Any) -> Any:
        if not begun:
            begun.append(True)
            threading.Timer(0.02, interrupt).start()
        return original(*arguments)

    monkeypatch.setattr(f"batchcut.selection.cut.{name}", called)
    with pytest.raises(KeyboardInterrupt):
        work()
    return time.perf_counter() - sent[0]


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("pool", "size", "during"),
    [
        (None, 64, "_order._nearest"),
        (None, 64, "_seek.sweep"),
        (200, 64, "_refine.weigh_fast"),
        (200, 64, "_refine.improve"),
        (6, 4096, "_refine.sum_by_batch"),
        (6, 4096, "_refine.improve"),
    ],
)
def test_interrupt_is_answered_soon(
    make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch, threads: int, pool: int | None, size: int, during: str
) -> None:
    u, v = make_pairs(60_000, 128)
    bc.Cut()(u[:6000], v[:6000], batch_size=64)
    cut = bc.Cut(rounds=50, threads=threads, pool=pool)
    assert interrupted_during(monkeypatch, during, lambda: cut(u, v, batch_size=size)) < 1


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("during", ["_seek.weigh_own", "_seek.sweep"])
def test_interrupt_is_answered_soon_while_large_batches_are_sought(
    make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch, threads: int, during: str
) -> None:
    bc.Cut(rounds=4)(*make_pairs(6000, 128), batch_size=64)  # compiled
    pairs = unit_pairs(*make_pairs(32_768, 128))
    weighting, batches = Weighting.of(pairs, 8192, 0.1, None), np.arange(32_768).reshape(4, 8192)

    def work() -> None:
        with interrupts_kept(), crew_of(threads) as crew:
            seek(pairs, batches, None, weighting, sweeps=3, crew=crew)

    assert interrupted_during(monkeypatch, during, work) < 1


@pytest.mark.alone
@pytest.mark.parametrize(("threads", "rounds"), [(1, 10**12), (2, 3_000)])  # kicks that do not fit in memory at once
def test_many_rounds_can_be_interrupted(make_pairs: MakePairs, threads: int, rounds: int) -> None:
    u, v = make_pairs(1280)
    bc.Cut(threads=1)(u, v, batch_size=32)  # compiled
    cut = bc.Cut(threads=threads, rounds=rounds)
    assert interrupted_after(lambda: cut(u, v, batch_size=32), signalled=True) < 3


@pytest.mark.parametrize(
    ("setting", "error", "text"),
    [
        ({"pool": 1}, ValueError, "pool must be at least 2; got 1"),
        ({"pool": 2.5}, TypeError, "pool must be an integer; got float"),
        ({"rounds": 0}, ValueError, "rounds must be at least 1; got 0"),
        ({"threads": 0}, ValueError, "threads must be at least 1; got 0"),
        ({"temperature": 0}, ValueError, "temperature must be finite and above 0; got 0"),
        ({"temperature": 1e-30}, ValueError, "temperature must be between 1e-06 and 1e\\+06; got 1e-30"),
        ({"temperature": 1e40}, ValueError, "temperature must be between 1e-06 and 1e\\+06; got 1e\\+40"),
        ({"margin": np.inf}, ValueError, "margin must be finite; got inf"),
    ],
)
def test_bad_settings_are_refused(setting: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        bc.Cut(**setting)


def test_the_last_pool_may_be_smaller(make_pairs: MakePairs) -> None:
    u, v = make_pairs(60)
    plan, random = (s(u, v, batch_size=6) for s in (bc.Cut(pool=4, margin=None), bc.Shuffle()))
    assert len(plan) == 10
    for rows in (slice(0, 4), slice(4, 8), slice(8, 10)):
        assert sorted(plan.batches[rows].ravel()) == sorted(random.batches[rows].ravel())
