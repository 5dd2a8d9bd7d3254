"""Old embeddings for the loss: who is drawn, how much they count, the same after a resume, off where no help."""

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import TensorDataset

from batchcut.losses import Background, contrastive_loss
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, PlannedLoader, Sharding
from batchcut.sampling._background import LARGEST_SHARE, share_of
from batchcut.selection import Cut, Ordered, Shuffle

N, DIM, B = 96, 8, 8
TENSORS = ("u", "v", "live")


def rows(seed: int = 0, n: int = N) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    u = torch.randn(n, DIM, generator=random)
    return u, u + 0.1 * torch.randn(n, DIM, generator=random)


def trained(loader: PlannedLoader, epochs: int, *, drift: float = 0.1) -> list[Background | None]:
    """What each batch gets, where the embeddings of all samples wander by so much an epoch."""
    backgrounds = []
    for epoch in range(loader.epoch, epochs):
        u, v = (side + drift * epoch * rows(9)[0] for side in rows())
        for (index,) in loader:
            backgrounds.append(loader.background)
            loader.record(u[index], v[index])
    return backgrounds


def made(**settings: Any) -> PlannedLoader:
    return PlannedLoader(TensorDataset(torch.arange(N)), batch_size=B, temperature=0.1, **settings)


def equal(a: Background | None, b: Background | None) -> bool:
    if a is None or b is None:
        return a is b
    return bool(a.share == b.share) and all(torch.equal(getattr(a, name), getattr(b, name)) for name in TENSORS)


@pytest.mark.parametrize(
    ("agreement", "alignment", "share"),
    [
        (0.9, 0.6, LARGEST_SHARE),
        (0.6, 0.6, LARGEST_SHARE),
        (0.45, 0.6, LARGEST_SHARE / 2),
        (0.3, 0.6, 0.0),
        (-0.5, 0.6, 0.0),
        (0.5, -0.1, LARGEST_SHARE),  # of positives that point nowhere
        (-0.5, -0.1, 0.0),
        (torch.nan, 0.6, 0.0),
        (0.5, torch.nan, 0.0),
    ],
)
def test_the_share_is_by_the_cosine_of_positives(agreement: float, alignment: float, share: float) -> None:
    assert float(share_of(torch.tensor(agreement), torch.tensor(alignment))) == pytest.approx(share)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_alignment_is_the_mean_cosine_of_the_two_sides(dtype: torch.dtype) -> None:
    bank = EmbeddingBank(N, DIM, dtype=dtype)
    (u, v), (x, y) = rows(0), rows(1)
    assert torch.isnan(bank.alignment)
    bank.record(torch.arange(50), u[:50], v[:50])
    before = float(bank.alignment)
    assert before == pytest.approx(float(F.cosine_similarity(u[:50], v[:50]).mean()), abs=2e-3)
    bank.record(torch.arange(20), x[:20], -y[:20])
    new, keep = float(F.cosine_similarity(x[:20], -y[:20]).mean()), float(np.exp(-20 / 1024))
    assert float(bank.alignment) == pytest.approx(new + keep * (before - new), abs=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_agreement_is_the_mean_cosine_of_new_and_old_rows(dtype: torch.dtype) -> None:
    bank = EmbeddingBank(N, DIM, dtype=dtype)
    (u, v), (x, y) = rows(0), rows(1)
    bank.record(torch.arange(50), u[:50], v[:50])
    assert torch.isnan(bank.agreement)
    some = torch.arange(40, 60)  # ten of which were recorded before
    bank.record(some, x[some], y[some])
    cosines = (F.cosine_similarity(u, x) + F.cosine_similarity(v, y)) / 2
    assert float(bank.agreement) == pytest.approx(float(cosines[40:50].mean()), abs=2e-3)
    before = float(bank.agreement)
    bank.record(some, x[some], y[some])
    keep = float(np.exp(-20 / 1024))
    assert float(bank.agreement) == pytest.approx(1 + keep * (before - 1), abs=2e-3)


def test_both_ways_of_recording_agree() -> None:
    """A sample twice in a batch takes the way over torch, one without repeats the compiled one."""
    (u, v), (x, y) = rows(0), rows(1)
    fast, slow = EmbeddingBank(N, DIM), EmbeddingBank(N, DIM)
    for bank in (fast, slow):
        bank.record(torch.arange(N), u, v)
    fast.record(torch.arange(N), x, y)
    slow._record_good(torch.arange(N), x, y, torch.full((N,), slow.clock))
    torch.testing.assert_close(slow.agreement, fast.agreement, rtol=1e-5, atol=0)
    torch.testing.assert_close(slow.alignment, fast.alignment, rtol=1e-5, atol=0)
    torch.testing.assert_close(slow.u, fast.u, rtol=0, atol=0)


def test_shuffled_epochs_have_none_and_planned_ones_do() -> None:
    backgrounds = trained(made(), 3)
    per_epoch = N // B
    assert backgrounds[:per_epoch] == [None] * per_epoch
    assert backgrounds[per_epoch] is None  # nothing was recorded twice yet
    assert all(background is not None for background in backgrounds[per_epoch + 1 :])


@pytest.mark.parametrize(
    "settings",
    [{"background": False}, {"selector": Shuffle()}, {"selector": Ordered(k=12, q=6)}],
    ids=["turned off", "Shuffle", "Ordered"],
)
def test_none_where_turned_off_or_not_planned(settings: dict[str, Any]) -> None:
    assert set(trained(made(**settings), 3)) == {None}


def test_none_where_embeddings_are_of_another_time() -> None:
    loader = made()
    for epoch in range(3):
        u, v = rows(epoch)  # as if each epoch had turned them at random
        for (index,) in loader:
            assert loader.background is None
            loader.record(u[index], v[index])
    assert abs(float(loader.bank.agreement)) < 0.3


@pytest.mark.parametrize(
    "groups",
    [[{i} for i in range(N)], [{i // 6} for i in range(N)], [{i // 4, -1 - (i + 2) // 4} for i in range(N)]],
    ids=["no conflicts", "a group each", "two groups each"],
)
def test_samples_of_the_batch_and_conflicts_do_not_count(groups: list[set[int]]) -> None:
    loader = made(groups=groups)
    u, v = rows()

    def conflicts(drawn: Tensor, index: Tensor) -> list[bool]:
        met = set().union(*(groups[i] for i in index.tolist()))
        return [bool(groups[k] & met) for k in drawn.tolist()]

    seen = 0
    for _ in range(3):
        for (index,) in loader:
            background = loader.background
            if background is not None:
                assert background.live is not None
                live = background.u[background.live]
                drawn = torch.cdist(live, loader.bank.u).argmin(dim=1)
                assert not any(conflicts(drawn, index))
                dead = torch.cdist(background.u[~background.live], loader.bank.u).argmin(dim=1)
                assert all(conflicts(dead, index))
                assert background.largest_weight == N / len(background.u)
                seen += 1
            loader.record(u[index], v[index])
    assert seen > N // B


def test_samples_never_recorded_do_not_count() -> None:
    bank = EmbeddingBank(N, DIM)
    u, v = rows()
    half = torch.arange(0, N, 2)
    for _ in range(2):
        bank.record(half, u[half], v[half])
    sampler = PlannedBatchSampler(bank, batch_size=B, shuffled_epochs=0)
    index = torch.tensor(next(iter(sampler)))
    background = sampler.background_of(index, step=0)
    assert background is not None
    assert background.live is not None
    assert bool((background.u[background.live].norm(dim=1) > 0).all())
    assert 0 < int(background.live.sum()) < 0.7 * len(background.live)


def test_a_draw_is_a_function_of_seed_epoch_and_step() -> None:
    first, again, other = (trained(made(seed=seed), 3) for seed in (0, 0, 1))
    assert all(map(equal, first, again))
    assert not any(equal(a, b) for a, b in zip(first, other, strict=True) if a is not None)
    present = [background for background in first if background is not None]
    assert not any(equal(a, b) for a, b in itertools.combinations(present, 2))


def test_looking_twice_gives_the_same() -> None:
    loader = made()
    u, v = rows()
    for _ in range(2):
        for (index,) in loader:
            assert equal(loader.background, loader.background)
            loader.record(u[index], v[index])


@pytest.mark.parametrize("stop", [N // B + 3, 2 * N // B])
@pytest.mark.parametrize("kind", ["memory", "half", "file"])
def test_the_same_after_a_resume(stop: int, kind: str, tmp_path: Path) -> None:
    def loader(name: str) -> PlannedLoader:
        if kind == "memory":
            return made()
        settings: dict[str, Any] = {"dtype": torch.float16} if kind == "half" else {"path": tmp_path / name}
        return made(bank=EmbeddingBank(N, **settings))

    whole = trained(loader("whole"), 4)
    first, state = loader("first"), None
    done = 0
    while state is None:
        epoch = first.epoch
        u, v = (side + 0.1 * epoch * rows(9)[0] for side in rows())
        for (index,) in first:
            assert equal(first.background, whole[done])
            first.record(u[index], v[index])
            done += 1
            if done == stop:
                state = copy.deepcopy(first.state_dict())
                break
    second = loader("second")
    second.load_state_dict(state)
    assert all(map(equal, trained(second, 4), whole[stop:]))


@pytest.mark.parametrize("kind", ["state", "half", "file"])
@pytest.mark.filterwarnings("ignore:.*rows were damaged:RuntimeWarning")
def test_rows_that_are_left_out_make_no_loss_nan(kind: str, tmp_path: Path) -> None:
    """A background gives them no mass, and nothing times NaN is NaN."""
    u, v = rows()
    bank = EmbeddingBank(N, DIM, path=tmp_path / "bank" if kind == "file" else None)
    for _ in range(2):
        bank.record(torch.arange(N), u, v)
    bank.u[3::4], bank.v[5::6] = {"state": torch.nan, "half": 1e5, "file": torch.inf}[kind], torch.nan
    if kind == "file":
        del bank
        bank = EmbeddingBank(N, DIM, path=tmp_path / "bank")
    else:
        state = bank.state_dict()
        bank = EmbeddingBank(N, DIM, dtype=torch.float16 if kind == "half" else torch.float32)
        bank.load_state_dict(state)
    loader = made(bank=bank, shuffled_epochs=0)
    for (index,) in loader:
        background = loader.background
        assert background is not None
        assert background.live is not None
        assert not bool(background.live.all())
        assert bool(contrastive_loss(u[index], v[index], background=background).isfinite())


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"^background must be "):
        made(background="yes")
    sampler = PlannedBatchSampler(EmbeddingBank(N, DIM), batch_size=B, selector=Cut())
    assert sampler.background_of(torch.arange(B), step=0) is None
    with pytest.raises(TypeError, match=r"^index must be a torch tensor; got list$"):
        sampler.background_of([0, 1], step=0)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"there is no batch yet"):
        _ = made().background


def test_there_is_none_where_nobody_knows_the_whole_batch() -> None:
    """Rows of the other part would be negatives of their own samples."""
    whole = Sharding(mode="split", together=False)
    assert trained(made(sharding=whole), 2)[-1] is not None
    part = Sharding(rank=1, world_size=2, mode="split", together=False)
    assert trained(made(sharding=part), 3) == [None] * (3 * N // B)
