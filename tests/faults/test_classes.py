"""Bad arguments and damaged files, by public class: which error, and what it says."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import batchcut as bc
from batchcut.data import load
from batchcut.sampling import EmbeddingBank, PlannedBatchSampler
from batchcut.training import Config, DataSettings, OptimizerSettings, config_of

U = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
ROWS = torch.from_numpy(U)


def plan(**settings: Any) -> bc.BatchPlan:
    return bc.Cut(**settings)(U, U, batch_size=4)


def bank(path: Path | None = None) -> EmbeddingBank:
    found = EmbeddingBank(12, 4, path=path)
    found.record(torch.arange(12), ROWS, ROWS)
    return found


def sampler(**settings: Any) -> PlannedBatchSampler:
    return PlannedBatchSampler(bank(), **{"batch_size": 4, "shuffled_epochs": 0} | settings)


def damaged(path: Path, write: Callable[[Path], object], change: Callable[[bytearray], object]) -> Path:
    """A file that was written whole, and is not any more."""
    write(path)
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)
    return path


def flip(place: int) -> Callable[[bytearray], object]:
    return lambda content: content.__setitem__(place, content[place] ^ 0xFF)


def fifo(path: Path) -> Path:
    """A pipe that nobody writes to: whoever opens it waits."""
    os.mkfifo(path)
    return path


def packed(place: int, sample: int) -> bytes:
    """Three batches of four as a state holds them, with another sample in one place."""
    batches = np.arange(12, dtype="<i4")
    batches[place] = sample
    return batches.tobytes()


def resumed(**changes: object) -> None:
    """A sampler goes on from a state with other entries, and is left as it was where they are refused."""
    first, second = sampler(), sampler()
    next(iter(first))
    before = second.state_dict()
    try:
        second.load_state_dict(first.state_dict() | changes)
    finally:
        assert second.state_dict() == before


COSINES = r"state\['cosines'\] must be a list of two cosines, or None where there is none; got "
NOT_A_PLAN = r"plan must be a plan saved by BatchPlan\.save; got one that fails: "
HUGE = 10**600

FAULTS: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (lambda _: plan(temperature=0), ValueError, r"^temperature must be finite and above 0; got 0$"),
    (lambda _: plan(temperature=HUGE), ValueError, r"^temperature must be finite and above 0; got 10+…$"),
    (lambda _: plan(temperature="warm"), TypeError, r"^temperature must be a number; got str$"),
    (lambda _: plan(margin=float("nan")), ValueError, r"^margin must be .*; got nan$"),
    (lambda _: plan(margin=HUGE), ValueError, r"^margin must be .*; got "),
    (lambda _: plan(rounds=0), ValueError, r"^rounds must be at least 1; got 0$"),
    (lambda _: plan(threads=True), TypeError, r"^threads must be an integer; got bool$"),
    (lambda _: bc.Cut()(U, U[:5], batch_size=4), ValueError, r"^v must have the shape of u, \(12, 4\).*; got \(5, 4\)"),
    (lambda _: bc.Cut()(U, U, batch_size=13), ValueError, r"^batch_size must be at most .*12; got 13$"),
    (lambda _: bc.Cut()(U * np.inf, U, batch_size=4), ValueError, r"^u must hold finite numbers; got "),
    (lambda _: bc.Cut()(U, U, batch_size=4, groups=[1]), ValueError, r"^groups must .*12.*; got .*1"),
    (lambda _: bc.Cut()(U, U, batch_size=4, seed=-1), ValueError, r"^seed must be at least 0; got -1$"),
    (lambda _: bc.Ordered(k=0), ValueError, r"^k must be at least 1; got 0$"),
    (lambda _: bc.Ordered(k=2, q=3), ValueError, r"^q must be at most .*2; got 3$"),
    (lambda _: bc.Spectral(pool=0), ValueError, r"^pool must be at least .*; got 0$"),
    (
        lambda _: replace(plan(), losses=np.ones(1)),
        ValueError,
        r"^losses must hold one number for each of the 3 batches",
    ),
    (lambda at: bc.BatchPlan.load(at / "nowhere"), FileNotFoundError, r"No such file"),
    (lambda at: bc.BatchPlan.load(damaged(at / "plan", plan().save, flip(100))), ValueError, NOT_A_PLAN),
    (lambda at: bc.BatchPlan.load(damaged(at / "plan", plan().save, flip(-3))), ValueError, NOT_A_PLAN),
    (lambda at: bc.BatchPlan.load(damaged(at / "plan", plan().save, bytearray.clear)), ValueError, NOT_A_PLAN),
    (lambda at: plan().save(at), OSError, r"Is a directory"),
    (lambda _: EmbeddingBank(1), ValueError, r"^n must be at least 2; got 1$"),
    (lambda _: EmbeddingBank(4, 0), ValueError, r"^dim must be at least 1; got 0$"),
    (
        lambda _: bank().record(torch.tensor([12]), ROWS[:1], ROWS[:1]),
        ValueError,
        r"^index must lie in 0 to 11; got 12$",
    ),
    (lambda _: bank().record(torch.tensor([1]), ROWS[:2], ROWS[:1]), ValueError, r"^u must have shape \(1, 4\)"),
    (lambda _: bank().load_state_dict({}), ValueError, r"^state must be of an EmbeddingBank, with u, v, recorded_at"),
    (
        lambda _: bank().load_state_dict(bank().state_dict() | {"u": 3}),
        TypeError,
        r"^state\['u'\] must be a torch tensor",
    ),
    (
        lambda _: bank().load_state_dict(bank().state_dict() | {"clock": 0}),
        ValueError,
        r"^state\['clock'\] must be at least 1; got 0$",
    ),
    (
        lambda _: bank().load_state_dict(bank().state_dict() | {"recorded_at": torch.zeros(12)}),
        TypeError,
        r"^state\['recorded_at'\] must hold integers; got torch.float32$",
    ),
    (
        lambda _: bank().load_state_dict(bank().state_dict() | {"recorded_at": torch.zeros(12, dtype=torch.complex64)}),
        TypeError,
        r"^state\['recorded_at'\] must hold integers; got torch.complex64$",
    ),
    (
        lambda _: bank().load_state_dict(bank().state_dict() | {"clock": 2**63}),
        ValueError,
        r"^state\['clock'\] must be at most \d+; got 9223372036854775808$",
    ),
    *(
        (lambda _, bad=bad: bank().load_state_dict(bank().state_dict() | {"cosines": bad}), error, rf"^{COSINES}{got}$")
        for bad, error, got in (
            ([], ValueError, r"\[\]"),
            ([1, 2], ValueError, r"\[1, 2\]"),
            ([float("inf"), None], ValueError, r"\[inf, None\]"),
            (["a", "b"], TypeError, "list"),
            (3, TypeError, "int"),
        )
    ),
    (lambda at: EmbeddingBank(4, path=at), OSError, r"Is a directory"),
    (lambda at: EmbeddingBank(4, 2, path=at / "nowhere" / "b"), OSError, r"No such file.*/nowhere/b'$"),
    (lambda at: EmbeddingBank(4, 2, path=at / ("n" * 256)), OSError, r"File name too long.*/n{256}'$"),
    (
        lambda at: EmbeddingBank(4, 2, path=fifo(at / "b")),
        ValueError,
        r"^path must be the file.*/b, a device or a pipe$",
    ),
    (
        lambda at: EmbeddingBank(12, path=damaged(at / "b", bank, flip(47))),
        ValueError,
        r"^path must hold a clock from 0 to \d+; got -\d+ in .*b$",
    ),
    (lambda at: EmbeddingBank(13, 4, path=damaged(at / "b", bank, list)), ValueError, r"^path must hold a bank of 13"),
    (
        lambda at: EmbeddingBank(12, path=damaged(at / "b", bank, flip(3))),
        ValueError,
        r"^path must be the file of a bank",
    ),
    (
        lambda at: EmbeddingBank(12, path=damaged(at / "b", bank, flip(31))),
        ValueError,
        r"^path must be the file of a bank, or not",
    ),
    (
        lambda at: EmbeddingBank(12, path=damaged(at / "b", bank, bytearray.pop)),
        ValueError,
        r"^path must hold \d+ bytes",
    ),
    (lambda _: sampler(batch_size=13), ValueError, r"^batch_size must be at most 12; got 13$"),
    (lambda _: sampler(replan_every=0), ValueError, r"^replan_every must be at least 1; got 0$"),
    (lambda _: sampler(selector="cut"), TypeError, r"^selector must be .*; got str$"),
    (lambda _: sampler().set_epoch(-1), ValueError, r"^epoch must be at least 0; got -1$"),
    (lambda _: sampler().load_state_dict({}), ValueError, r"^state must be of a PlannedBatchSampler; got no "),
    *(
        (lambda _, bad=bad: resumed(**bad), error, text)
        for bad, error, text in (
            ({"over": "yes"}, TypeError, r"^state\['over'\] must be True or False; got str$"),
            ({"made_in": 3}, ValueError, r"^state\['made_in'\] must be at most 0; got 3$"),
            (
                {"made_in": None},
                ValueError,
                r"^state\['batches'\] must be None where state\['made_in'\] is; got bytes$",
            ),
            ({"n": np.array([12, 12])}, ValueError, r"^state must be of a sampler with n = 12; got array"),
            ({"batch_size": torch.tensor([4, 4])}, ValueError, r"^state must be of a sampler with batch_size = 4; got"),
            ({"batches": np.arange(12)}, TypeError, r"^state\['batches'\] must be bytes; got ndarray$"),
            (
                {"batches": bytes(47)},
                ValueError,
                r"^state\['batches'\] must hold 48 bytes, for 3 batches of 4; got 47$",
            ),
            ({"batches": packed(0, 1)}, ValueError, r"^state\['batches'\] must hold no sample twice in one batch"),
            ({"batches": packed(0, 4)}, ValueError, r"^state\['batches'\] must hold each sample once"),
            ({"batches": packed(0, 12)}, ValueError, r"^state\['batches'\] must hold indices below 12; got 12$"),
            ({"batches": packed(0, -2)}, ValueError, r"^state\['batches'\] must hold indices below 12; got -2$"),
            ({"batches": packed(0, -1)}, ValueError, r"^state\['batches'\] must be full"),
            (
                {"batches": packed(11, -1)},
                ValueError,
                r"^state\['batches'\] must hold the 12 samples of epoch 0; got 11",
            ),
        )
    ),
    (
        lambda _: load("folder:~nobody-of-this-name/x"),
        ValueError,
        r"^root must be given, or .* no home folder is known",
    ),
    (lambda _: load("nonsense"), ValueError, r"^name must be one of digits, "),
    (lambda at: load("cifar10", root=at), FileNotFoundError, r"cifar-10-batches-py is not there: --download"),
    (lambda at: load(f"folder:{at}"), ValueError, r"must hold at least 2 images; got none$"),
    (lambda at: load(f"pairs:{at}"), ValueError, r"must hold arrays named train_u, .*; got none$"),
    (lambda _: Config(epochs=0), ValueError, r"^epochs must be at least 1; got 0$"),
    (lambda _: OptimizerSettings(learning_rate=float("inf")), ValueError, r"learning_rate must be .*; got inf$"),
    (lambda _: DataSettings(name="x"), ValueError, r"^data\.name must be one of digits, "),
    (lambda _: config_of({"epochs": HUGE}, source="x"), ValueError, r"^x: epochs must be an integer of 64 bits"),
    (
        lambda _: config_of({"optimizer": {"learning_rate": HUGE}}, source="x"),
        ValueError,
        r"^x: optimizer\.learning_rate must be .*; got inf$",
    ),
]


@pytest.mark.parametrize(("act", "error", "text"), FAULTS, ids=[text for _, _, text in FAULTS])
def test_a_fault_is_told_by_its_name(
    act: Callable[[Path], object], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text) as caught:
        act(tmp_path)
    assert "\n" not in str(caught.value)
