"""`batchcut select`, called as a user does."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.numpy

from batchcut import BatchPlan, Cut, Ordered, Shuffle, Spectral, cli, evaluation, scale
from batchcut.selection import Selector, prospects

Floats = npt.NDArray[np.float32]


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["select", *map(str, words)])
    code = stop.value.code
    assert isinstance(code, int)
    return code


def make_pairs(count: int = 96, dim: int = 8) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    u = rng.standard_normal((count, dim)) + 2 * rng.standard_normal((6, dim))[rng.integers(0, 6, count)]
    v = u + 0.5 * rng.standard_normal(u.shape)
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))
    return u.astype(np.float32), v.astype(np.float32)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    for name, values in zip("uv", make_pairs(), strict=True):
        np.save(tmp_path / f"{name}.npy", values)
    return tmp_path / "u.npy", tmp_path / "v.npy"


METHODS: list[tuple[list[str], Selector]] = [
    ([], Cut()),
    (
        ["--method", "cut", "--pool", "4", "--rounds", "2", "--margin", "0.1"],
        Cut(pool=4, rounds=2, margin=0.1),
    ),
    (
        ["--method", "spectral", "--pool", "6", "--temperature", "0.2"],
        Spectral(pool=6, temperature=0.2),
    ),
    (["--method", "ordered", "--k", "6", "--q", "2"], Ordered(k=6, q=2)),
    (["--margin", "none"], Cut(margin=None)),
    (["--method", "shuffle"], Shuffle()),
]


@pytest.mark.parametrize(("flags", "selector"), METHODS)
def test_the_plan_is_that_of_the_selector(flags: list[str], selector: Selector, sides: tuple[Path, Path]) -> None:
    target = sides[0].parent / "plan.npz"
    assert run(*sides, "--batch-size", 8, "--seed", 3, "--epoch", 1, "-o", target, "--quiet", *flags) == 0
    assert BatchPlan.load(target) == selector(*make_pairs(), batch_size=8, seed=3, epoch=1)


def test_json(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*sides, "--batch-size", 8, "--json") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    plan, shuffled = (selector(*make_pairs(), batch_size=8) for selector in (Cut(), Shuffle()))
    assert found["mean_loss"] == plan.mean_loss
    assert found["shuffled_mean_loss"] == shuffled.mean_loss
    assert found["gain"] == plan.mean_loss / shuffled.mean_loss > 1.5
    effective = plan.measured(*make_pairs()).effective
    assert effective is not None
    assert found["effective_size"] == effective.facts
    assert found["effective_size"]["size"] > 8
    assert (found["batches"], found["coverage"], found["warnings"], found["output"]) == (12, 1.0, [], None)
    expected = prospects(*make_pairs(), plan.measured(*make_pairs()))
    assert found["pays"] == expected.pays
    assert (found["hard_negatives"], found["twins"]) == (expected.hard_negatives, expected.twins)
    assert found["advice"] == list(expected.sentences)
    assert printed.err == ""


def test_the_advice_knows_the_groups(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    groups = np.arange(96) // 4
    named = sides[0].parent / "groups.npy"
    np.save(named, groups)
    assert run(*sides, "--batch-size", 8, "--groups", named, "--json") == 0
    u, v = make_pairs()
    plan = Cut()(u, v, batch_size=8, groups=groups).measured(u, v)
    expected = prospects(u, v, plan, groups=groups)
    assert (
        json.loads(capsys.readouterr().out)["advice"]
        == list(expected.sentences)
        != list(prospects(u, v, plan).sentences)
    )


def test_the_table_and_where_it_was_written(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    target = sides[0].parent / "plan.npz"
    assert run(*sides, "--batch-size", 10, "-o", target) == 0
    printed = capsys.readouterr().out
    for text in (
        "Cut: 9 batches of 10",
        "mean loss",
        "effective batch size",
        "93.8%",
        "times that of a random one",
        f"written to {target}; DataLoader(dataset, batch_sampler=batchcut.BatchPlan.load('{target}')) gives",
    ):
        assert text in printed
    assert "times that of shuffled batches" not in printed  # which would say it twice


def test_says_whether_it_pays(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*sides, "--batch-size", 8) == 0
    printed = capsys.readouterr().out
    assert "Planning " in printed
    assert "negatives matter to a sample" in printed
    assert run(*sides, "--batch-size", 8, "--method", "shuffle") == 0
    assert "Planning " not in capsys.readouterr().out


def test_quiet_prints_nothing(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*sides, "--batch-size", 8, "--quiet", "--json") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("names", [("u", "v"), ("train_u", "train_v"), ("image", "text")])
@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_one_file_with_both(kind: str, names: tuple[str, str], tmp_path: Path) -> None:
    path, target = tmp_path / f"both.{kind}", tmp_path / "plan.npz"
    content = dict(zip(names, make_pairs(), strict=True))
    if kind == "npz":
        np.savez(path, **content)  # type: ignore[arg-type]
    else:
        safetensors.numpy.save_file(content, path)
    assert run(path, "--batch-size", 8, "-o", target, "--quiet") == 0
    assert BatchPlan.load(target) == Cut()(*make_pairs(), batch_size=8)


@pytest.mark.parametrize("kind", ["npy", "txt"])
def test_groups_are_kept_apart(kind: str, sides: tuple[Path, Path]) -> None:
    groups = np.arange(96) // 4
    path, target = sides[0].parent / f"groups.{kind}", sides[0].parent / "plan.npz"
    if kind == "npy":
        np.save(path, groups)
    else:
        path.write_text("\n".join(f"group {number}" for number in groups))
    assert run(*sides, "--batch-size", 8, "--groups", path, "-o", target, "--quiet") == 0
    assert all(len(set(groups[batch])) == 8 for batch in BatchPlan.load(target))


def test_a_short_batch(sides: tuple[Path, Path]) -> None:
    target = sides[0].parent / "plan.npz"
    assert run(*sides, "--batch-size", 10, "--no-drop-last", "-o", target, "--quiet") == 0
    assert BatchPlan.load(target).coverage == 1


def test_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    u, v = make_pairs()
    np.savez(tmp_path / "x.npz", u=3 * np.concatenate([u, u[:1]]) + 9, v=np.concatenate([v, v[:1]]))
    assert run(tmp_path / "x.npz", "--batch-size", 8) == 0
    error = capsys.readouterr().err
    for text in ("warning: the embeddings look collapsed", "are not normalised", "1 pairs are exact copies"):
        assert text in error
    assert "groups keep them apart, where a margin only takes their weight away" in error


@pytest.mark.parametrize("margin", ["0.05", "none"])
def test_the_table_counts_what_the_margin_takes_the_weight_of(
    margin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    u, v = make_pairs(16)
    np.savez(tmp_path / "x.npz", u=np.concatenate([u[:15], u[:1]]), v=np.concatenate([v[:15], v[:1]]))
    words = (tmp_path / "x.npz", "--batch-size", 16, "--margin", margin)
    assert run(*words, "--json") == 0
    count = json.loads(capsys.readouterr().out)["margin_pairs"]
    assert run(*words) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "too similar, together" in line)
    assert row.replace("│", "").split()[3:] == (["no", "margin", "–"] if margin == "none" else [str(count), "–"])
    assert (count > 0) == (margin != "none")


BAD = [
    (["u.npy", "v.npy", "--batch-size", "1"], "--batch-size must be at least 2; got 1"),
    (
        ["u.npy", "v.npy", "--batch-size", "97"],
        "batchcut: --batch-size must be at most the number of samples, 96; got 97",
    ),
    (["u.npy", "--batch-size", "8"], "V must be given where U is a .npy file\n"),
    (
        ["u.npy", "nowhere.npy", "--batch-size", "8"],
        "nowhere.npy: no such file; check the path, which begins in the current folder",
    ),
    (["u.npy", "x.npz", "--batch-size", "8"], "U and V must both be .npy files"),
    (["u.npy", "short.npy", "--batch-size", "8"], "V must have the shape of U, (96, 8); got (4, 8)"),
    (["u.npy", "cut.npy", "--batch-size", "8"], "cut.npy must be a whole .npy file"),
    (
        ["three.npz", "--batch-size", "8"],
        "three.npz must hold u and v, train_u and train_v, or just two arrays; got a, b, c",
    ),
    (["u.npy", "v.npy", "--batch-size", "8", "--method", "ordered"], "--k must be given with --method ordered\n"),
    (
        ["u.npy", "v.npy", "--batch-size", "8", "--method", "shuffle", "--rounds", "2"],
        "--rounds must be left alone with",
    ),
    (["u.npy", "v.npy", "--batch-size", "8", "--seed", "-1"], "batchcut: --seed must be "),
    (["u.npy", "v.npy", "--batch-size", "8", "--pool", "0"], "batchcut: --pool must be "),
    (["u.npy", "v.npy", "--batch-size", "8", "-o", "no/where.npz"], "--out must lie in a folder that is there"),
    (["u.npy", "v.npy", "--batch-size", "8", "-o", "."], "--out must be a file; got ., a folder"),
    (["u.npy", "v.npy", "--batch-size", "8", "-o", os.devnull], f"--out must be a file; got {os.devnull}, a device"),
    (["u.npy", "v.npy", "--batch-size", "8", "-o", "/proc/x"], "--out must lie in a folder where files can be made"),
    (
        ["u.npy", "v.npy", "--batch-size", "8", "--groups", "short.txt"],
        "batchcut: --groups must hold one entry for each of the 96",
    ),
]


@pytest.mark.parametrize(("words", "text"), BAD)
def test_bad_input(
    words: list[str],
    text: str,
    sides: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = sides[0].parent
    monkeypatch.chdir(folder)
    np.save(folder / "short.npy", np.ones((4, 8)))
    (folder / "cut.npy").write_bytes(sides[0].read_bytes()[:-1])
    (folder / "short.txt").write_text("a\nb\n")
    np.savez(folder / "three.npz", a=np.ones((4, 2)), b=np.ones((4, 2)), c=np.ones((4, 2)))
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 6.71 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127]\ncan't allocate memory: Unable to allocate 6.71 GiB"),
    ],
)
def test_a_plan_is_kept_though_what_comes_after_it_fails(
    error: Exception, sides: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(evaluation, "health", fail)
    target = sides[0].parent / "plan.npz"
    assert run(*sides, "--batch-size", 8, "-o", target) == 1
    assert len(BatchPlan.load(target)) == 12
    said = capsys.readouterr().err
    assert said.startswith("batchcut: there is not enough memory for it: ")
    assert said.endswith("Unable to allocate 6.71 GiB\n")
    assert said.count("\n") == 1


def test_json_has_no_word_for_what_is_not_finite(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(evaluation.health(*make_pairs()), alike=float("nan"), longest=float("inf"))
    monkeypatch.setattr(evaluation, "health", lambda *_: found)
    assert run(*sides, "--batch-size", 8, "--json") == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=lambda word: 1 / 0)
    assert (printed["alike"], printed["norms"][1]) == (None, None)


def test_a_group_may_hold_what_other_texts_end_lines_with(sides: tuple[Path, Path]) -> None:
    target, groups = sides[0].parent / "plan.npz", sides[0].parent / "groups.txt"
    names = [f"{number // 3}\x0c\u2028\x85\r{number // 3}" for number in range(96)]
    groups.write_bytes("\r\n".join(names).encode())
    assert run(*sides, "--batch-size", 8, "--groups", groups, "-o", target, "--quiet") == 0
    assert BatchPlan.load(target) == Cut()(*make_pairs(), batch_size=8, groups=[number // 3 for number in range(96)])


def test_parts_give_the_plan_of_cells_and_go_on(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchcut.scale._memory.MOST_IN_CELL", 64)
    target, parts = sides[0].parent / "plan.npz", sides[0].parent / "parts"
    words = (*sides, "--batch-size", 8, "--seed", 3, "--parts", parts, "-o", target)
    with monkeypatch.context() as broken:
        broken.setattr("batchcut.scale._plan_in_cells.plan_cell", interrupt)
        assert run(*words) == 130
    assert f"the same command goes on with the parts in {parts}" in capsys.readouterr().err
    assert run(*words, "--memory", 300) == 0
    printed = capsys.readouterr().out
    for text in ("Cut: 12 batches of 8", "not measured", "times that of shuffled batches", f"written to {target}"):
        assert text in printed
    plan = BatchPlan.load(target)
    pairs = scale.open_pair_files(*sides)
    assert plan == scale.plan_in_cells(pairs, parts=parts.with_name("new"), batch_size=8, seed=3, selector=Cut())
    assert plan.settings["cells"] == 2


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_plan_without_a_file_is_kept_with_its_parts(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = sides[0].parent / "parts"
    words = (*sides, "--batch-size", 8, "--parts", parts)
    assert run(*words) == 0
    assert f"The plan is kept in {parts}: the same command with -o writes it." in capsys.readouterr().out
    monkeypatch.setattr("batchcut.scale._plan_in_cells._make", None)
    assert run(*words, "-o", sides[0].parent / "plan.npz") == 0
    assert BatchPlan.load(sides[0].parent / "plan.npz") == BatchPlan.load(parts / "plan.npz")


def test_parts_with_groups_and_json(sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    groups = sides[0].parent / "groups.npy"
    np.save(groups, np.arange(96) // 2)
    assert run(*sides, "--batch-size", 8, "--parts", groups.with_name("parts"), "--groups", groups, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["batches"], found["group_pairs"], found["effective_size"]) == (12, 0, None)
    assert found["gain"] > 1.2


def test_shuffled_batches_of_some_samples_say_nothing_of_groups(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    groups = sides[0].parent / "groups.npy"
    np.save(groups, np.arange(96) // 2)
    assert run(*sides, "--batch-size", 8, "--parts", groups.with_name("parts"), "--groups", groups) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    cells = {" ".join(line[1:-5]): (line[-4], line[-2]) for line in lines if len(line) > 5 and line[0] == "│"}
    assert cells["of one group together"][0] == "0"
    assert all(cells[name][1] == "–" for name in ("of one group together", "samples in a batch", "seconds"))
    assert cells["mean loss"][1] != "–"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--memory", "300"], "--memory must be given with --parts; got 300"),
        (["--parts", "p", "--memory", "1"], "--memory must be at least 221 MiB for batches of 8, 8 wide; got 1\n"),
        (["--parts", "p", "--memory", "0"], "--memory must be at least 1; got 0"),
        (["--parts", "u.npy"], "--parts must be a folder; got u.npy, a file"),
        (["--parts", "."], "--parts must be empty, or hold the parts of the same plan; got ."),
        (
            ["--parts", "p", "--method", "ordered", "--k", "4"],
            "--method must be one that takes each sample once with --parts; got ordered",
        ),
        (["--parts", "p", "-o", "p"], "--out must lie outside the folder of --parts; got p"),
        (["--parts", "p", "--batch-size", "5000"], "--batch-size must be at most 96; got 5000"),
    ],
)
def test_parts_that_cannot_be(
    sides: tuple[Path, Path],
    words: list[str],
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(sides[0].parent)
    assert run("u.npy", "v.npy", *(() if "--batch-size" in words else ("--batch-size", 8)), *words) == 2
    assert text in capsys.readouterr().err
    assert not Path("p").exists()


def test_the_folder_of_the_parts_is_not_for_the_plan(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    parts = sides[0].parent / "parts"
    parts.mkdir()
    assert run(*sides, "--batch-size", 8, "--parts", parts, "-o", parts / "plan.npz") == 2
    assert "--out must lie outside the folder of --parts; got " in capsys.readouterr().err
    assert not any(parts.iterdir())
