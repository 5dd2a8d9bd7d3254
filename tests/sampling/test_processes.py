"""Two real gloo processes: one plan, a joined bank, each sample once, equal counts, and none that waits for ever."""

import copy
from typing import Any

import pytest
import torch
from tests._processes import found_by
from tests.sampling._helpers import DIM, Called, data_set, filled, flat, pairs
from torch.utils.data import DataLoader

from batchcut.sampling import EmbeddingBank, PlannedBatchSampler, Sharding
from batchcut.sampling._ahead import PlanAhead
from batchcut.selection import BatchPlan, Cut

WORLD, N, B, EPOCHS = 2, 45, 6, 4
CASES: dict[str, dict[str, Any]] = {
    f"{mode}, {'rotate' if drop_last else 'short'}": {"mode": mode, "drop_last": drop_last}
    for mode in ("whole", "split")
    for drop_last in (True, False)
}


class Fails(Called):
    """A selector that cannot plan."""

    def __call__(self, u: Any, v: Any, **arguments: Any) -> BatchPlan:
        raise ArithmeticError("no plan today")


def _new(bank: EmbeddingBank, sharding: Sharding | None, **settings: Any) -> PlannedBatchSampler:
    common: dict[str, Any] = {"batch_size": B, "seed": 2, "selector": Cut(threads=1), "sharding": sharding}
    return PlannedBatchSampler(bank, **(common | settings))


def _train(rank: int, *, mode: Any, drop_last: bool, workers: int = 0) -> dict[str, Any]:
    """Some epochs, each process recording what it has seen; and once more from the middle of the last."""
    bank = EmbeddingBank(N, DIM, dtype=torch.float16)
    sharding = Sharding(rank=rank, world_size=WORLD, mode=mode)
    sampler = _new(bank, sharding, drop_last=drop_last)
    # Started by spawn, a process would spawn its workers too: four imports of torch an epoch.
    options: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    loader = DataLoader(data_set(N), batch_sampler=sampler, **options)
    epochs, lengths, plans = [], [], []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        lengths.append(len(loader))
        drawn = []
        for index, (u, v) in loader:
            bank.record(index, u, v)
            drawn.append(index.tolist())
        epochs.append(drawn)
        plans.append(None if sampler.plan is None else sampler.plan.batches.tolist())
    again = _new(EmbeddingBank(N, DIM), sharding, drop_last=drop_last)
    again.load_state_dict(sampler.state_dict(position=2))
    return {"epochs": epochs, "lengths": lengths, "plans": plans, "rest": list(again)}


def _backgrounds(sharding: Sharding | None) -> list[dict[str, Any]]:
    """Those of the batches of two planned epochs; embeddings wander a little from one to the next."""
    bank = EmbeddingBank(N, DIM)
    sampler = _new(bank, sharding, groups=[i // 2 for i in range(N)])
    (u, v), (x, _) = pairs(N), pairs(N, seed=1)
    found = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for step, index in enumerate(map(torch.tensor, sampler)):
            background = sampler.background_of(index, step=step)
            found.append({} if background is None else vars(background) | {"index": index})
            bank.record(index, *(side[index] + 0.1 * epoch * x[index] for side in (u, v)))
    return [background for background in found if background]


def _ahead(sharding: Sharding | None, batches: int = 1) -> dict[str, Any]:
    """Epochs whose plans are made ahead; once more from states before and after the step at which they are begun."""
    how: dict[str, Any] = {"plan_ahead": 0.4 if batches == 1 else 4 / 6, "multiple_of": batches}  # after two of three
    sampler, epochs = _new(EmbeddingBank(N, DIM), sharding, **how), []
    states: list[tuple[int, dict[str, Any]]] = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append(_recorded(sampler, list(sampler), batches, states if epoch == 1 else None))
    again = {}
    for done, state in states:
        other = _new(EmbeddingBank(N, DIM), sharding, **how)
        other.bank.load_state_dict(state["bank"])
        other.load_state_dict(state["sampler"])
        again[done] = [_recorded(other, list(other), batches)]
        other.set_epoch(2)
        again[done].append(list(other))
    return {"epochs": epochs, "again": again}


def _recorded(
    sampler: PlannedBatchSampler, drawn: list[list[int]], batches: int, states: list[Any] | None = None
) -> list[list[int]]:
    """Records the batches of each step, so many at a time, with states after the first step and the last but one."""
    for done in range(0, len(drawn), batches):
        index = torch.tensor(flat(drawn[done : done + batches]))
        sampler.record(index, *(side[index] for side in pairs(N, seed=sampler.epoch)))
        if states is not None and done in (0, len(drawn) - 2):
            sampler.join()
            state = {"sampler": sampler.state_dict(position=done + batches), "bank": sampler.bank.state_dict()}
            states.append((done, copy.deepcopy(state)))
    return drawn


def _fail_ahead(rank: int, *, joined: bool) -> list[str]:
    """The first process cannot plan, which both hear of when the next epoch begins, and not with a state before."""
    sampler = _new(EmbeddingBank(N, DIM), Sharding(rank=rank, world_size=WORLD), selector=Fails(), plan_ahead=0.4)
    _recorded(sampler, list(sampler), 1)
    found = []
    if joined:
        for _ in range(2):
            sampler.join()
            found.append(str(sampler.state_dict()["ahead"]))
        found.append(str(copy.deepcopy(sampler).state_dict()["ahead"]))
    elif rank == 0:
        sampler.state_dict()  # the other one does not know of it
    for _ in range(2):  # planned ahead; and a second try
        try:
            list(sampler)
        except (ArithmeticError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def _interrupted(rank: int) -> list[str]:
    """What interrupts the first process while all wait for a plan is no failure of the plan."""
    sampler = _new(EmbeddingBank(N, DIM), Sharding(rank=rank, world_size=WORLD), plan_ahead=0.4)
    _recorded(sampler, list(sampler), 1)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanAhead, "wait", _interrupt)
        try:
            sampler.join()
        except (KeyboardInterrupt, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    sampler.join()
    return [*found, str(sampler.state_dict()["ahead"] is not None), str(len(list(sampler)))]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _not_joined(rank: int) -> str:
    """A state of one process alone, while the plan is with the first."""
    sampler = _new(EmbeddingBank(N, DIM), Sharding(rank=rank, world_size=WORLD), plan_ahead=0.4)
    _recorded(sampler, list(sampler), 1)
    try:
        state = sampler.state_dict()
    except RuntimeError as error:
        return str(error)
    return str(state["ahead"] is not None)


def _join(rank: int, dtype: torch.dtype) -> dict[str, Any]:
    """Each process records other samples, and one of them both: the newer record wins."""
    bank = EmbeddingBank(7, DIM, dtype=dtype)
    u, v = pairs(7, seed=rank)
    if rank == 0:
        bank.record(torch.tensor([0, 1, 5]), u[[0, 1, 5]], v[[0, 1, 5]])
    else:
        bank.record(torch.tensor([2, 4]), u[[2, 4]], v[[2, 4]])
        bank.record(torch.tensor([5]), u[[5]], v[[5]])
    bank.join()
    bank.join()  # changes nothing
    return bank.state_dict()


def _means(rank: int, *, state_in_epoch: bool, **settings: Any) -> list[list[int]]:
    """The last plan of some epochs, with a bank that keeps means, and a state taken in the middle or not."""
    sharding = Sharding(rank=rank, world_size=WORLD)
    bank = EmbeddingBank(N, DIM, momentum=0.5)
    sampler = _new(bank, sharding, average_views=True, **settings)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for place, batch in enumerate(sampler):
            index = torch.tensor(batch)
            sampler.record(index, *(side[index] for side in pairs(N, seed=epoch)))
            if state_in_epoch and place == 1:
                sampler.join()
                sampler.state_dict()
    assert sampler.plan is not None
    batches: list[list[int]] = sampler.plan.batches.tolist()
    return batches


MEANS: dict[str, dict[str, Any]] = {
    "shuffled twice": {"shuffled_epochs": 2},
    "planned every other epoch": {"replan_every": 2},
    "planned ahead": {"plan_ahead": 0.4},
}


def _join_a_file(rank: int, folder: str) -> dict[str, Any]:
    path = f"{folder}/bank {rank}"
    bank = EmbeddingBank(4, DIM, path=path)
    bank.record(torch.tensor([rank]), *(side[[rank]] for side in pairs(4)))
    bank.join()
    return EmbeddingBank(4, DIM, path=path).state_dict()


def _join_others(rank: int) -> str:
    """Each process made a bank for its own samples alone."""
    try:
        EmbeddingBank(7 + rank, DIM).join()
    except ValueError as error:
        return str(error)
    return "no error"


def _fail(rank: int) -> str:
    """The first process cannot plan: both must hear of it."""
    bank = filled(N)
    sampler = _new(bank, Sharding(rank=rank, world_size=WORLD), selector=Fails(), shuffled_epochs=0)
    try:
        list(sampler)
    except (ArithmeticError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def _wrong(sharding: Sharding | None, *, shuffled_epochs: int = 0) -> str:
    try:
        list(_new(filled(N), sharding, shuffled_epochs=shuffled_epochs))
    except ValueError as error:
        return str(error)
    return "no error"


def _all_jobs(rank: int, world: int, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {name: _train(rank, **case) for name, case in CASES.items()}
    found["workers"] = _train(rank, mode="whole", drop_last=False, workers=2)
    for mode in ("whole", "split"):
        found[f"backgrounds, {mode}"] = _backgrounds(Sharding(rank=rank, world_size=WORLD, mode=mode))
        found[f"ahead, {mode}"] = _ahead(Sharding(rank=rank, world_size=WORLD, mode=mode))
    found["ahead, failure"] = _fail_ahead(rank, joined=False)
    found["ahead, failure, joined"] = _fail_ahead(rank, joined=True)
    found["ahead, interrupted"] = _interrupted(rank)
    found["ahead, not joined"] = _not_joined(rank)
    found["float32"] = _join(rank, torch.float32)
    found["float16"] = _join(rank, torch.float16)
    for name, settings in MEANS.items():
        found[name] = [_means(rank, state_in_epoch=taken, **settings) for taken in (False, True)]
    found["file"] = _join_a_file(rank, folder)
    found["other sizes"] = _join_others(rank)
    found["failure"] = _fail(rank)
    found["not told"] = _wrong(None)
    found["other rank"] = _wrong(Sharding(rank=1 - rank, world_size=WORLD))
    found["other world"] = _wrong(Sharding(rank=rank, world_size=3))
    found["other rank, shuffled"] = _wrong(Sharding(rank=1 - rank, world_size=WORLD), shuffled_epochs=1)
    found["alone"] = list(_new(filled(N), Sharding(), shuffled_epochs=0))
    found["after all that"] = _join(rank, torch.float32)["clock"]
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the two processes found; they are started once for all tests."""
    return found_by(WORLD, tmp_path_factory.mktemp("processes"), _all_jobs)


def alone(*, mode: str, drop_last: bool) -> list[list[list[int]]]:
    """The batches of all processes in one process, which sees what both of them see."""
    bank = EmbeddingBank(N, DIM, dtype=torch.float16)
    sampler = _new(bank, None, drop_last=drop_last, multiple_of=WORLD if mode == "whole" else 1)
    epochs = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        epochs.append([list(batch) for batch in sampler])
        rows = torch.tensor(flat(epochs[-1]))
        bank.record(rows, *(side[rows] for side in pairs(N)))
    return epochs


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_sample_once_over_all_processes_and_equal_counts(found: list[dict[str, Any]], name: str) -> None:
    ranks = [rank[name] for rank in found]
    for epoch in range(EPOCHS):
        samples = flat(flat(rank["epochs"][epoch] for rank in ranks))  # type: ignore[arg-type]
        assert len(set(samples)) == len(samples)
        if "short" in name:
            assert sorted(samples) == list(range(N))
        else:
            assert len(samples) == (36 if "whole" in name else 42)
        assert len({len(rank["epochs"][epoch]) for rank in ranks}) == 1
        assert all(rank["lengths"][epoch] == len(rank["epochs"][epoch]) for rank in ranks)
    if "rotate" in name:
        size = B if "whole" in name else B // WORLD
        assert {len(batch) for rank in ranks for epoch in rank["epochs"] for batch in epoch} == {size}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_union_is_the_plan_of_one_process(found: list[dict[str, Any]], name: str) -> None:
    whole = CASES[name]["mode"] == "whole"
    for epoch, expected in enumerate(alone(**CASES[name])):
        steps = zip(*(rank[name]["epochs"][epoch] for rank in found), strict=True)
        dealt = [batch for step in steps for batch in (step if whole else [flat(step)])]
        assert dealt == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_at_hand_on_all_processes(found: list[dict[str, Any]], name: str) -> None:
    first, second = (rank[name]["plans"] for rank in found)
    assert first == second
    assert first[0] is None
    assert len({str(plan) for plan in first}) == EPOCHS


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_process_goes_on_in_the_middle(found: list[dict[str, Any]], name: str) -> None:
    for rank in found:
        assert rank[name]["rest"] == rank[name]["epochs"][-1][2:]


@pytest.mark.slow
def test_workers_change_nothing(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert rank["workers"] == rank["whole, short"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
def test_both_hold_the_newest_record_of_each_sample(found: list[dict[str, Any]], dtype: torch.dtype) -> None:
    first, second = (rank[str(dtype).removeprefix("torch.")] for rank in found)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert first["recorded_at"].tolist() == [0, 0, 0, -1, 0, 1, -1]
    assert first["clock"] == 2
    sides = {name: [side.to(dtype) for side in pairs(7, seed=rank)] for rank, name in enumerate(["zero", "one"])}
    for place, key in enumerate("uv"):
        assert torch.equal(first[key][[0, 1]], sides["zero"][place][[0, 1]])
        assert torch.equal(first[key][[2, 4, 5]], sides["one"][place][[2, 4, 5]])
        assert not first[key][[3, 6]].any()


@pytest.mark.slow
@pytest.mark.parametrize("name", MEANS)
def test_with_means_a_state_changes_no_later_plan(found: list[dict[str, Any]], name: str) -> None:
    without, with_state = found[0][name]
    assert with_state == without


@pytest.mark.slow
def test_banks_in_files_are_joined(found: list[dict[str, Any]]) -> None:
    for rank in found:
        torch.testing.assert_close(rank["file"]["u"][:2], pairs(4)[0][:2])
        assert rank["file"]["recorded_at"].tolist() == [0, 0, -1, -1]


@pytest.mark.slow
def test_banks_of_other_sizes_are_refused_by_all(found: list[dict[str, Any]]) -> None:
    for rank, at in enumerate(found):
        rule = "the size (n, dim) and the precision of a bank must be the same in all processes"
        here, there = ((7 + k, DIM, "torch.float32") for k in (rank, 1 - rank))
        assert at["other sizes"] == f"{rule}; got {here} here, and {there} in process {1 - rank}"


@pytest.mark.slow
def test_a_plan_that_fails_fails_on_both(found: list[dict[str, Any]]) -> None:
    assert found[0]["failure"] == "ArithmeticError: no plan today"
    assert found[1]["failure"] == "RuntimeError: the first process could not plan: ArithmeticError: no plan today"
    assert [rank["after all that"] for rank in found] == [2, 2]  # the processes still agree


@pytest.mark.slow
def test_a_sharding_that_is_missing_or_wrong_is_refused(found: list[dict[str, Any]]) -> None:
    for rank, at in enumerate(found):
        assert at["not told"] == (
            f"sharding must say which of the 2 processes this is, as Sharding(rank={rank}, world_size=2) does; got None"
        )
        wrongs = {"other rank": (1 - rank, 2), "other world": (rank, 3), "other rank, shuffled": (1 - rank, 2)}
        for name, wrong in wrongs.items():
            assert at[name].startswith(
                "sharding must be that of the process group, to plan together; or have together="
            )
            assert f"rank={wrong[0]}, world_size={wrong[1]}" in at[name]
            assert at[name].endswith(f"in process {rank} of 2")


@pytest.mark.slow
def test_a_process_may_say_that_it_plans_for_itself(found: list[dict[str, Any]]) -> None:
    assert found[0]["alone"] == found[1]["alone"] == list(_new(filled(N), None, shuffled_epochs=0))


@pytest.mark.slow
def test_split_batches_have_one_background_and_it_is_that_of_one_process(found: list[dict[str, Any]]) -> None:
    first, second = (each["backgrounds, split"] for each in found)
    single = _backgrounds(None)
    assert len(first) == len(second) == len(single) > N // B
    for ours, theirs, whole in zip(first, second, single, strict=True):
        assert sorted(torch.cat([ours["index"], theirs["index"]]).tolist()) == sorted(whole["index"].tolist())
        assert ours["share"] == theirs["share"]
        for name in ("u", "v", "live"):
            torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=0)
        for name in ("u", "v", "live"):
            torch.testing.assert_close(ours[name], whole[name], rtol=0, atol=0)
        assert ours["share"] == pytest.approx(whole["share"], rel=0.05)


@pytest.mark.slow
def test_whole_batches_have_backgrounds_of_their_own(found: list[dict[str, Any]]) -> None:
    first, second = (each["backgrounds, whole"] for each in found)
    assert len(first) == len(second) > 0
    assert not any(torch.equal(ours["u"], theirs["u"]) for ours, theirs in zip(first, second, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["whole", "split"])
def test_plans_made_ahead_are_those_of_one_process(found: list[dict[str, Any]], mode: str) -> None:
    ranks = [rank[f"ahead, {mode}"] for rank in found]
    single = _ahead(None, WORLD if mode == "whole" else 1)
    for epoch, expected in enumerate(single["epochs"]):
        steps = zip(*(rank["epochs"][epoch] for rank in ranks), strict=True)
        assert [batch for step in steps for batch in (step if mode == "whole" else [flat(step)])] == expected
    for rank in ranks:
        assert len(rank["again"]) == 2
        for done, (rest, following) in rank["again"].items():
            assert rest == rank["epochs"][1][done + 1 :]
            assert following == rank["epochs"][2]


@pytest.mark.slow
@pytest.mark.parametrize("joined", [False, True])
def test_a_plan_that_fails_ahead_fails_on_both_when_the_epoch_begins(found: list[dict[str, Any]], joined: bool) -> None:
    first = "ArithmeticError: no plan today"
    for rank, failure in zip(found, [first, f"RuntimeError: the first process could not plan: {first}"], strict=True):
        name = "ahead, failure, joined" if joined else "ahead, failure"
        assert rank[name] == ["None"] * (3 if joined else 0) + [failure] * 2


@pytest.mark.slow
def test_an_interrupt_stays_one_and_the_plan_goes_on(found: list[dict[str, Any]]) -> None:
    assert found[0]["ahead, interrupted"] == ["KeyboardInterrupt: ", "True", "3"]
    assert found[1]["ahead, interrupted"] == [
        "RuntimeError: the first process could not plan: KeyboardInterrupt: ",
        "True",
        "3",
    ]


@pytest.mark.slow
def test_the_state_of_a_process_without_the_plan_is_refused(found: list[dict[str, Any]]) -> None:
    assert found[0]["ahead, not joined"] == "True"
    assert found[1]["ahead, not joined"] == (
        "the plan of the next epoch is with the first process: call join() on all of them first"
    )
