"""Who takes which batch: each sample once over all processes, as many batches for each, none too small."""

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from batchcut.sampling import Sharding


def partition(n: int, size: int) -> list[Any]:
    return np.split(np.arange(n), range(size, n, size))


def all_shares(
    batches: list[Any], world: int, mode: Literal["whole", "split"], **options: Any
) -> list[list[list[int]]]:
    ranks = [Sharding(rank=rank, world_size=world, mode=mode) for rank in range(world)]
    shares = [[batch.tolist() for batch in rank.share(batches, **options)] for rank in ranks]
    for rank, share in zip(ranks, shares, strict=True):
        assert len(share) == rank.count(len(batches), **options)
    return shares


@given(st.integers(4, 200), st.integers(2, 16), st.integers(1, 5), st.integers(1, 3))
def test_whole_has_every_sample_once_and_equal_counts(n: int, size: int, world: int, multiple_of: int) -> None:
    batches = partition(n, size)
    assume(size >= 4 and len(batches) >= world * multiple_of)
    shares = all_shares(batches, world, "whole", multiple_of=multiple_of)
    assert sorted(i for share in shares for batch in share for i in batch) == list(range(n))
    assert len({len(share) for share in shares}) == 1
    assert len(shares[0]) % multiple_of == 0
    sizes = [len(batch) for share in shares for batch in share]
    assert 2 <= min(sizes) <= max(sizes) <= size
    cut = [size for size in sizes if size != len(batches[0]) and size != len(batches[-1])]
    assert all(part >= size // 2 for part in cut)


@given(st.integers(4, 200), st.integers(2, 5), st.integers(1, 5), st.integers(1, 3))
def test_split_has_every_sample_once_and_no_empty_part(n: int, parts: int, world: int, multiple_of: int) -> None:
    size = parts * world
    assume(2 * max(2, world) <= size <= n and len(partition(n, size)) >= multiple_of)
    shares = all_shares(partition(n, size), world, "split", multiple_of=multiple_of)
    assert sorted(i for share in shares for batch in share for i in batch) == list(range(n))
    assert len({len(share) for share in shares}) == 1
    for step in zip(*shares, strict=True):
        sizes = [len(batch) for batch in step]
        assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1
        assert sum(sizes) <= size


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 3))
def test_without_cutting_whole_rounds_are_dealt_as_they_are(count: int, world: int, multiple_of: int) -> None:
    batches = partition(4 * count, 4)
    shares = all_shares(batches, world, "whole", multiple_of=multiple_of, cut=False)
    dealt = [batch for step in zip(*shares, strict=True) for batch in step]
    per_round = world * multiple_of
    assert dealt == [batch.tolist() for batch in batches[: count // per_round * per_round]]


def test_whole_deals_in_turn_and_halves_what_is_missing() -> None:
    assert all_shares(partition(18, 6), 2, "whole") == [
        [[0, 1, 2, 3, 4, 5], [12, 13, 14]],
        [[6, 7, 8, 9, 10, 11], [15, 16, 17]],
    ]


def test_a_lone_last_sample_gets_company() -> None:
    assert all_shares(partition(9, 4), 1, "whole") == [[[0, 1, 2, 3], [4, 5, 6], [7, 8]]]


def test_split_cuts_each_batch_in_order() -> None:
    assert all_shares(partition(10, 4), 2, "split") == [[[0, 1], [4, 5], [8]], [[2, 3], [6, 7], [9]]]
    assert all_shares(partition(9, 4), 2, "split") == [[[0, 1], [4, 5], [7]], [[2, 3], [6], [8]]]


def test_samples_per_round() -> None:
    assert Sharding().samples_per_round(8) == 8
    assert Sharding(world_size=3).samples_per_round(8) == 24
    assert Sharding(world_size=4, mode="split").samples_per_round(8) == 8
    with pytest.raises(
        ValueError, match=r"^batch_size must be a multiple of world_size = 3 where batches are split; got 8$"
    ):
        Sharding(world_size=3, mode="split").samples_per_round(8)


def test_too_few_or_too_small_to_share() -> None:
    with pytest.raises(
        ValueError, match=r"^batches must be at least 3, of at least 4 samples each, .*; got 2 of up to 4$"
    ):
        Sharding(world_size=3).share(partition(8, 4))
    with pytest.raises(
        ValueError, match=r"^batches must be at least 2, of at least 4 samples each, .*; got 3 of up to 3$"
    ):
        Sharding(world_size=2).share(partition(9, 3))


@given(st.integers(4, 200), st.integers(4, 16), st.integers(1, 5), st.integers(1, 3))
def test_what_is_dealt_in_turn_is_what_whole_gives(n: int, size: int, world: int, multiple_of: int) -> None:
    batches = partition(n, size)
    assume(len(batches) >= world * multiple_of)
    whole = all_shares(batches, world, "whole", multiple_of=multiple_of)
    for rank in range(world):
        sharding = Sharding(rank=rank, world_size=world, mode="dealt")
        everything = [batch.tolist() for batch in sharding.share(batches, multiple_of=multiple_of)]
        assert len(everything) == sharding.count(len(batches), multiple_of=multiple_of)
        assert [everything[place::world] for place in range(world)] == whole
        assert sharding.samples_per_round(size) == Sharding(world_size=world).samples_per_round(size)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match=r"^rank must be at most 1; got 2$"):
        Sharding(rank=2, world_size=2)
    with pytest.raises(ValueError, match=r"^world_size must be at least 1; got 0$"):
        Sharding(world_size=0)
    with pytest.raises(ValueError, match=r"^mode must be 'whole', 'split' or 'dealt'; got 'both'$"):
        Sharding(mode="both")  # type: ignore[arg-type]
