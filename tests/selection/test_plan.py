import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchcut as bc

MakePairs = Callable[..., tuple[Any, Any]]


@pytest.fixture
def plan(make_pairs: MakePairs) -> bc.BatchPlan:
    u, v = make_pairs(22)
    return bc.Cut(pool=None, margin=0.1)(u, v, batch_size=4, seed=3, epoch=2, groups=np.arange(22) // 2)


def test_plan_says_what_was_asked_and_what_came_out(plan: bc.BatchPlan) -> None:
    assert (plan.method, plan.seed, plan.epoch, plan.temperature, plan.drop_last) == ("Cut", 3, 2, 0.1, True)
    assert dict(plan.settings)["margin"] == 0.1
    assert dict(plan.settings)["rounds"] is None
    assert (len(plan), plan.batch_size, plan.count) == (5, 4, 22)
    assert len(plan.left_over) == 2
    assert plan.coverage == pytest.approx(20 / 22)
    assert plan.mean_loss == pytest.approx(plan.losses.mean())
    assert plan.total_weight == pytest.approx(plan.weights.sum())
    assert plan.seconds > 0


def test_plans_can_be_pickled_and_copied(plan: bc.BatchPlan) -> None:
    copies: list[Any] = [pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)]  # noqa: S301
    for other in copies:
        assert other == plan
        assert other.seconds == plan.seconds
        assert not other.batches.flags.writeable
        with pytest.raises(TypeError):
            other.settings["rounds"] = 9


@given(st.integers(0, 9), st.integers(0, 12), st.booleans())
def test_within_a_larger_set_a_plan_is_as_valid_as_one_that_is_checked(seed: int, more: int, drop_last: bool) -> None:
    rng = np.random.default_rng(seed)
    plan = bc.Ordered(k=2)(*rng.standard_normal((2, 22, 4)), batch_size=4, seed=seed, drop_last=drop_last)
    samples = np.sort(rng.choice(22 + more, 22, replace=False))
    within = plan.within(samples, 22 + more, drop_last=not drop_last)
    batches = np.where(plan.batches >= 0, samples[plan.batches], -1)
    absent = np.setdiff1d(np.arange(22 + more), batches)
    changes: Any = {"batches": batches, "count": 22 + more, "left_over": absent, "drop_last": not drop_last}
    assert within == dataclasses.replace(plan, **changes)
    assert not within.batches.flags.writeable
    assert pickle.loads(pickle.dumps(within)) == within  # noqa: S301


def test_summary(plan: bc.BatchPlan) -> None:
    text = plan.summary()
    for part in ("Cut(", "22 samples, batch size 4, seed 3, epoch 2", "5 (equal sizes)", "2 left over"):
        assert part in text
    assert f"mean {plan.mean_loss:.4f}" in text


def test_the_effective_size_is_measured_kept_and_not_compared(make_pairs: MakePairs, tmp_path: Path) -> None:
    u, v = make_pairs(22)
    plan = bc.Cut()(u, v, batch_size=4, seed=3, epoch=2)
    assert plan.effective is None
    assert "effective not measured: plan.measured(u, v) does" in plan.summary()
    measured = plan.measured(u, v, anchors=9)
    how: Any = {"temperature": 0.1, "seed": 3, "epoch": 2, "anchors": 9}
    assert measured.effective == bc.selection.effective_batch_size(u, v, plan.batches, **how)
    assert measured.effective is not None
    assert measured == plan
    assert f"effective {measured.effective}: random batches that large keep as much" in measured.summary()
    with pytest.raises(ValueError, match=r"^u must hold the 22 samples of the plan; got shape \(23, "):
        plan.measured(*make_pairs(23))
    for one in (plan, measured):
        one.save(tmp_path / "plan")
        assert bc.BatchPlan.load(tmp_path / "plan").effective == one.effective
        assert pickle.loads(pickle.dumps(one)).effective == one.effective  # noqa: S301
    assert measured.within(np.arange(22), 30, drop_last=True).effective == measured.effective


def test_a_size_that_is_not_known_is_kept_and_called_that(tmp_path: Path) -> None:
    same = np.ones((8, 3))
    plan = bc.Cut()(same, same, batch_size=4).measured(same, same)
    assert "effective unknown: no full-batch gradient can be told from zero\n" in plan.summary()
    plan.save(tmp_path / "plan")
    loaded = bc.BatchPlan.load(tmp_path / "plan").effective
    assert loaded is not None
    assert loaded.facts == {"size": None, "low": 1, "high": 8, "kept": None, "anchors": 8}


def test_plans_saved_before_there_were_effective_sizes_load(plan: bc.BatchPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    content = dict(np.load(tmp_path / "plan"))
    facts = json.loads(str(content["facts"]))
    del facts["effective"]
    with (tmp_path / "plan").open("wb") as file:
        np.savez(file, **content | {"facts": np.array(json.dumps(facts))})
    assert bc.BatchPlan.load(tmp_path / "plan") == plan


def test_an_effective_size_that_is_none_is_refused(plan: bc.BatchPlan) -> None:
    changed: Any = {"effective": 32.0}
    with pytest.raises(TypeError, match="effective must be None or an EffectiveSize; got float"):
        dataclasses.replace(plan, **changed)


def test_summary_names_a_short_batch(make_pairs: MakePairs) -> None:
    u, v = make_pairs(11)
    assert "3 (the last with 3)" in bc.Shuffle()(u, v, batch_size=4, drop_last=False).summary()


def test_plan_is_frozen(plan: bc.BatchPlan) -> None:
    for array in (plan.batches, plan.losses, plan.weights, plan.left_over):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.seed = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        plan.settings["rounds"] = 9  # type: ignore[index]
    with pytest.raises(TypeError, match="unhashable"):
        hash(plan)


def test_plan_does_not_share_memory_with_its_arguments(plan: bc.BatchPlan) -> None:
    batches = plan.batches.copy()
    other = dataclasses.replace(plan, batches=batches)
    batches[:] = 0
    assert other == plan


def test_iteration_leaves_out_the_padding(make_pairs: MakePairs) -> None:
    u, v = make_pairs(11)
    plan = bc.Shuffle()(u, v, batch_size=4, drop_last=False)
    assert [len(batch) for batch in plan] == [4, 4, 3]
    assert sorted(np.concatenate(list(plan)).tolist()) == list(range(11))


def test_equality_ignores_the_seconds_alone(plan: bc.BatchPlan) -> None:
    assert dataclasses.replace(plan, seconds=99.0) == plan
    assert dataclasses.replace(plan, batches=plan.batches[::-1]) != plan
    assert dataclasses.replace(plan, losses=plan.losses + 1) != plan
    assert dataclasses.replace(plan, seed=77) != plan
    assert dataclasses.replace(plan, epoch=77) != plan
    assert dataclasses.replace(plan, group_pairs=plan.group_pairs + 1) != plan
    assert dataclasses.replace(plan, margin_pairs=plan.margin_pairs + 1) != plan
    assert plan != "plan"


def test_saved_plan_comes_back(plan: bc.BatchPlan, tmp_path: Path) -> None:
    for path in (tmp_path / "plan.npz", tmp_path / "no-suffix"):
        plan.save(path)
        loaded = bc.BatchPlan.load(path)
        assert loaded == plan
        assert loaded.seconds == plan.seconds
        assert not loaded.batches.flags.writeable
    assert sorted(file.name for file in tmp_path.iterdir()) == ["no-suffix", "plan.npz"]


def test_settings_from_numpy_are_saved_as_plain_numbers(make_pairs: MakePairs, tmp_path: Path) -> None:
    u, v = make_pairs(24)
    settings: dict[str, Any] = {"rounds": 2, "pool": 3, "temperature": 0.25, "margin": 0.5}
    call: dict[str, Any] = {"batch_size": 4, "seed": 7, "epoch": 3}
    numbers: dict[str, Any] = {name: np.array(value)[()] for name, value in settings.items()}
    small: dict[str, Any] = {name: np.uint8(value) for name, value in call.items()}
    plan = bc.Cut(**numbers | {"margin": np.float32(0.5)})(u, v, **small)
    assert plan == bc.Cut(**settings)(u, v, **call)
    assert plan == bc.Cut(**settings | {"temperature": Fraction(1, 4), "threads": 1})(u, v, **call)
    plan.save(tmp_path / "plan")
    assert bc.BatchPlan.load(tmp_path / "plan") == plan
    facts = [plan.temperature, plan.seed, plan.epoch, plan.count, *plan.settings.values()]
    assert {type(fact) for fact in facts} <= {int, float, bool, type(None)}
    more: dict[str, Any] = {"count": np.int64(24), "temperature": np.float32(0.25)}
    dataclasses.replace(plan, **more).save(tmp_path / "plan")
    assert bc.BatchPlan.load(tmp_path / "plan") == plan


def test_failed_save_leaves_the_old_file(plan: bc.BatchPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.npz"
    plan.save(path)

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        dataclasses.replace(plan, seed=9).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["plan.npz"]
    assert bc.BatchPlan.load(path) == plan


def test_truncated_and_foreign_files_are_refused(plan: bc.BatchPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.npz")
    whole = (tmp_path / "plan.npz").read_bytes()
    np.savez(tmp_path / "foreign.npz", batches=plan.batches)
    np.savez(tmp_path / "other.npz", format=np.array("something else"))
    files = {"half": whole[: len(whole) // 2], "empty": b"", "text": b"hello", "pickle": b"\x80\x04N."}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    np.save(tmp_path / "array", np.arange(3))
    for name in (*files, "foreign.npz", "other.npz", "array.npy"):
        with pytest.raises(
            ValueError, match=name + " must be a plan saved by BatchPlan.save; got one that fails: "
        ) as told:
            bc.BatchPlan.load(tmp_path / name)
        assert "allow_pickle" not in str(told.value)
    with pytest.raises(FileNotFoundError):
        bc.BatchPlan.load(tmp_path / "missing")


@pytest.mark.parametrize("flip", [0x01, 0xFF])
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_files_never_give_another_plan(plan: bc.BatchPlan, tmp_path: Path, packed: bool, flip: int) -> None:
    path = tmp_path / "plan.npz"
    plan.save(path)
    if packed:
        np.savez_compressed(path, **dict(np.load(path)))
    content = path.read_bytes()
    refused = 0
    for place in [*range(0, len(content), 31), *range(len(content) - 400, len(content))]:  # all of what lists the parts
        path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
        try:
            assert bc.BatchPlan.load(path) == plan
        except ValueError:
            refused += 1
    assert refused > 100


def test_facts_that_cannot_be_are_refused(plan: bc.BatchPlan, tmp_path: Path) -> None:
    path = tmp_path / "plan.npz"
    plan.save(path)
    content = dict(np.load(path))
    facts = json.loads(str(content["facts"]))
    for bad in (facts | {"count": 10**15}, facts | {"count": 10**30}, facts | {"more": 1}, [facts]):
        np.savez(path, **content | {"facts": np.array(json.dumps(bad))})
        with pytest.raises(ValueError, match=r"plan\.npz must be a plan saved"):
            bc.BatchPlan.load(path)
    np.savez(path, **content | {"facts": np.array("[" * 100_000)})
    with pytest.raises(ValueError, match=r"plan\.npz must be a plan saved"):
        bc.BatchPlan.load(path)


def with_value(batches: Any, row: int, column: int, value: int) -> Any:
    changed = batches.copy()
    changed[row, column] = value
    return changed


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda p: {"batches": p.batches[0]}, ValueError, r"batches must have shape \(K, B\)"),
        (lambda p: {"batches": p.batches[:, :1]}, ValueError, r"batches must have shape \(K, B\)"),
        (lambda p: {"batches": p.batches.astype(float)}, TypeError, "batches must hold int64; got float64"),
        (
            lambda p: {"batches": with_value(p.batches, 0, 0, 22)},
            ValueError,
            "batches must hold indices below 22; got 22",
        ),
        (
            lambda p: {"batches": with_value(p.batches, 0, 0, -2)},
            ValueError,
            "batches must hold indices below 22; got -2",
        ),
        (
            lambda p: {"batches": with_value(p.batches, 4, 3, -2)},
            ValueError,
            "batches must hold indices below 22; got -2",
        ),
        (
            lambda p: {"batches": with_value(p.batches, 0, 3, -1)},
            ValueError,
            "batches must be full, but for -1 at the end",
        ),
        (
            lambda p: {"batches": with_value(p.batches, 4, 0, -1)},
            ValueError,
            "batches must be full, but for -1 at the end",
        ),
        (
            lambda p: {"batches": with_value(p.batches, 0, 0, p.batches[0, 1])},
            ValueError,
            "batches must hold no sample twice in one batch",
        ),
        (
            lambda p: {"batches": with_value(p.batches, 0, 0, p.batches[1, 1])},
            ValueError,
            "batches must hold each sample once where repeats=False",
        ),
        (lambda p: {"left_over": p.left_over[:1]}, ValueError, "left_over must list the samples that are in no batch"),
        (lambda p: {"losses": p.losses[:-1]}, ValueError, "losses must hold one number for each of the 5 batches"),
        (lambda p: {"temperature": 0.0}, ValueError, "temperature must be finite and above 0"),
        (lambda p: {"seed": -1}, ValueError, "seed must be at least 0; got -1"),
        (lambda p: {"seconds": -1.0}, ValueError, "seconds must be finite and at least 0; got -1.0"),
        (lambda p: {"seconds": "one"}, TypeError, "seconds must be a number; got str"),
        (lambda p: {"seconds": np.inf}, ValueError, "seconds must be finite and at least 0; got inf"),
        (lambda p: {"losses": p.losses * np.nan}, ValueError, "losses must hold finite numbers; got nan in batch 0"),
        (lambda p: {"weights": p.weights + np.inf}, ValueError, "weights must hold finite numbers; got inf in batch 0"),
        (lambda p: {"losses": -p.losses}, ValueError, "losses must hold no negative numbers; got -"),
        (lambda p: {"weights": p.weights - 1e9}, ValueError, "weights must hold no negative numbers; got -"),
        (lambda p: {"group_pairs": 10**9}, ValueError, "group_pairs must be at most [0-9]+; got 1000000000"),
        (lambda p: {"margin_pairs": -1}, ValueError, "margin_pairs must be at least 0; got -1"),
        (lambda p: {"losses": p.losses.astype("M8[s]")}, TypeError, "losses must hold float64; got datetime64"),
        (lambda p: {"repeats": 1}, TypeError, "repeats must be True or False; got int"),
        (lambda p: {"method": 3}, TypeError, "method must be a string; got int"),
        (
            lambda p: {"settings": {"a": [1]}},
            TypeError,
            r"settings\['a'\] must be a number, a string or None; got list",
        ),
        (lambda p: {"settings": {3: 1}}, TypeError, "settings must be named by strings; got int"),
        (lambda p: {"settings": None}, TypeError, "settings must be a mapping; got NoneType"),
        (lambda p: {"count": 10**30}, ValueError, "left_over must list the samples that are in no batch"),
        (lambda p: {"drop_last": "no"}, TypeError, "drop_last must be True or False; got str"),
    ],
)
def test_invalid_plans_are_impossible(plan: bc.BatchPlan, change: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dataclasses.replace(plan, **change(plan))


def test_a_mapped_plan_is_the_same_and_stays_in_its_file(plan: bc.BatchPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.npz")
    mapped = bc.BatchPlan.load(tmp_path / "plan.npz", mapped=True)
    assert mapped == plan
    assert (mapped.summary(), [batch.tolist() for batch in mapped]) == (plan.summary(), [b.tolist() for b in plan])
    for name in ("batches", "losses", "weights", "left_over"):
        assert isinstance(getattr(mapped, name), np.memmap)
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            getattr(mapped, name).flags.writeable = True
    other = dataclasses.replace(mapped, seconds=1.0)
    assert isinstance(other.batches, np.memmap)
    assert pickle.loads(pickle.dumps(mapped)) == plan  # noqa: S301
    whole = dataclasses.replace(
        plan, batches=plan.batches[:, :2], left_over=np.setdiff1d(np.arange(22), plan.batches[:, :2])
    )
    whole.save(tmp_path / "whole.npz")
    assert bc.BatchPlan.load(tmp_path / "whole.npz", mapped=True) == whole


def test_a_damaged_file_is_not_mapped(plan: bc.BatchPlan, tmp_path: Path) -> None:
    path = tmp_path / "plan.npz"
    plan.save(path)
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), 13):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            assert bc.BatchPlan.load(path, mapped=True) == plan
        except ValueError:
            refused += 1
    assert refused > 100
    path.write_bytes(content)
    np.savez_compressed(path, **dict(np.load(path)))
    assert bc.BatchPlan.load(path) == plan
    with pytest.raises(
        ValueError, match=r"plan\.npz must be a plan saved .* batches is compressed, and cannot be mapped"
    ):
        bc.BatchPlan.load(path, mapped=True)


def test_plans_are_checked_some_batches_at_a_time(plan: bc.BatchPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchcut.selection._plan_checks._SAMPLES_AT_ONCE", 8)
    assert dataclasses.replace(plan, seconds=0.0) == plan
    again = with_value(plan.batches, 4, 2, int(plan.batches[0, 1]))
    with pytest.raises(ValueError, match=f"each sample once where repeats=False; got sample {plan.batches[0, 1]}$"):
        dataclasses.replace(plan, batches=again)
    with pytest.raises(ValueError, match="batches must hold no sample twice in one batch"):
        dataclasses.replace(plan, batches=with_value(plan.batches, 3, 2, int(plan.batches[3, 1])))
    for wrong in (plan.left_over[::-1], plan.left_over + 22, plan.left_over - 30, plan.left_over[None]):
        with pytest.raises(ValueError, match="left_over must list the samples that are in no batch, ascending"):
            dataclasses.replace(plan, left_over=wrong)
