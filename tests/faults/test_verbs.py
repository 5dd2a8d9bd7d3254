"""Bad input and faults, by verb: the exit code, what is said in one line, and that nothing on the disk is touched."""

import json
import os
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

from batchcut import cli

from ._scene import (
    Fault,
    arrays,
    contents,
    cut,
    flipped,
    holds,
    linked,
    named_as_data,
    npy_header,
    resealed,
    tensors,
)

S = "select x.npz --batch-size 4"
NPZ = r"x\.npz must be a whole \.npz file of numbers; got one that fails: "
TENSORS = r"x\.safetensors must be a whole \.safetensors file of floats; got one that fails: "
NPY = r"v\.npy must be a whole \.npy file of numbers; got one that fails: "
LONG = "n" * 256

SELECT = [
    Fault("select nowhere.npz --batch-size 4", r"nowhere\.npz: no such file; check the path"),
    Fault("select x.npz", r"Command \"select\" parameter --batch-size requires an argument", lines=2),
    Fault("select x.npz --batch-size four", r".*must be an integer; got 'four'", lines=2),
    Fault("select x.npz --batch-size 1", r"--batch-size must be at least 2; got 1"),
    Fault("select x.npz --batch-size 25", r"--batch-size must be at most .*24; got 25"),
    Fault(f"select x.npz --batch-size {'9' * 400}", r"--batch-size must be at most .*24; got 9+"),
    Fault(f"{S} --temperature 0", r"--temperature must be finite and above 0; got 0.0"),
    Fault(f"{S} --temperature nan", r"--temperature must be finite and above 0; got nan"),
    Fault(f"{S} --margin inf", r"--margin must be .*; got inf"),
    Fault(f"{S} --rounds 0", r"--rounds must be at least 1; got 0"),
    Fault(f"{S} --threads 0", r"--threads must be at least 1; got 0"),
    Fault(f"{S} --seed -1", r"--seed must be at least 0; got -1"),
    Fault(f"{S} --method ordered", r"--k must be given with --method ordered"),
    Fault(f"{S} --method shuffle --pool 3", r"--pool must be left alone with --method shuffle; got 3"),
    Fault(f"{S} -o x.npz", r"--out must be another file than those that are read; got x\.npz"),
    Fault(f"{S} -o link", r"--out must be another file than those that are read; got link", linked("link", "x.npz")),
    Fault("select u.npy v.npy --batch-size 4 -o v.npy", r"--out must be another file than those that are read; got v"),
    Fault("select both --batch-size 4 -o both/u.npy", r"--out must be another file than those that are read; got both"),
    Fault(f"{S} --groups groups.txt -o groups.txt", r"--out must be another file than those that are read; got groups"),
    Fault(f"{S} -o run/config.toml", r"--out must lie outside the run in .*run, which is whole as it is; got run/conf"),
    Fault(f"{S} -o run/plans/mine.npz", r"--out must lie outside the run in .*run, which is whole as it is; got run/"),
    Fault(f"{S} -o both", r"--out must be a file; got both, a folder"),
    Fault(f"{S} -o /dev/null", r"--out must be a file; got /dev/null, a device or a pipe"),
    Fault(f"{S} -o nowhere/plan.npz", r"--out must lie in a folder that is there; got nowhere/plan\.npz"),
    Fault(f"{S} -o u.npy/plan.npz", r"--out must be a path that a file can have; got .* \(Not a directory\)"),
    Fault(f"{S} -o {LONG}", r"--out must be a path that a file can have; got n+ \(File name too long\)"),
    Fault(S, NPZ, cut("x.npz")),
    Fault(S, NPZ, cut("x.npz", 0.0)),
    Fault(S, NPZ + "Bad CRC-32 for file", flipped("x.npz", 0.3)),
    Fault(S, NPZ, holds("x.npz", b"PK\x03\x04" + bytes(100))),
    Fault(S, NPZ + "Object arrays cannot be loaded", arrays("x.npz", u=[None, 1], v=[1, 2])),
    Fault(S, r"x\.npz must hold u and v, .*or just two arrays; got a, b, c", arrays("x.npz", a=[1], b=[2], c=[3])),
    Fault(
        S, r"V must have the shape of U, \(2, 2\); got \(2, 3\)", arrays("x.npz", u=[[1.0] * 2] * 2, v=[[1.0] * 3] * 2)
    ),
    Fault(
        S,
        r"U must hold finite numbers; got nan in row 0",
        arrays("x.npz", u=[[1.0, float("nan")]] * 9, v=[[1.0, 2.0]] * 9),
    ),
    Fault(S, r"U must have no zero rows; got zeros in row 0", arrays("x.npz", u=[[0.0, 0.0]] * 9, v=[[1.0, 2.0]] * 9)),
    Fault(S, r"U must hold floating-point numbers; got str32", arrays("x.npz", u=[["a", "b"]] * 9, v=[["a", "b"]] * 9)),
    Fault("select u.npy v.npy --batch-size 4", NPY, holds("v.npy", npy_header("(1000000000000, 1000000)"))),
    Fault("select u.npy v.npy --batch-size 4", NPY, holds("v.npy", npy_header("(-1, 4)"))),
    Fault("select u.npy v.npy --batch-size 4", NPY, holds("v.npy", npy_header("(4, 4)", "'|O'"))),
    Fault("select u.npy v.npy --batch-size 4", NPY, holds("v.npy", npy_header("(" * 3000))),
    Fault("select u.npy --batch-size 4", r"V must be given where U is a \.npy file"),
    Fault("select x.safetensors --batch-size 4", TENSORS, holds("x.safetensors", b"")),
    Fault("select x.safetensors --batch-size 4", TENSORS, holds("x.safetensors", b"\xff" * 100)),
    Fault("select x.safetensors --batch-size 4", TENSORS, holds("x.safetensors", tensors(b"[" * 100_000))),
    Fault("select x.safetensors --batch-size 4", TENSORS, holds("x.safetensors", tensors([1]))),
    Fault("select x.safetensors --batch-size 4", TENSORS, holds("x.safetensors", tensors({"u": {"dtype": 3}}))),
    Fault(
        "select x.parquet --batch-size 4", r"x\.parquet must be a whole \.parquet file; got", holds("x.parquet", "PAR1")
    ),
    Fault("select settings.toml --batch-size 4", r"pairs must be \.npz, \.safetensors, .*; got settings\.toml"),
    Fault(f"{S} --groups nowhere.txt", r"nowhere\.txt: No such file or directory; check the path"),
    Fault(
        f"{S} --groups x.npz",
        r"x\.npz must be a \.npy file or a text with one group a line, for --groups, in UTF-8; got",
    ),
    Fault(f"{S} --groups /dev/zero", r"/dev/zero must be .*, for --groups, .* fails: a line of more than 65536 bytes"),
    Fault(f"{S} --groups texts.txt", r"--groups must .*24.*; got .*32.*"),
    Fault(
        f"{S} --groups groups.txt",
        r"--groups must .*24.*; got .*23.*",
        holds("groups.txt", "one\u2028line\n" + 22 * "another\fline\n"),
    ),
]

TRAIN = [
    Fault("train --recipe digitz", r"--recipe must be a name that is known; got 'digitz'", lines=2),
    Fault("train epochs", r"settings must have the form KEY=VALUE; got 'epochs'"),
    Fault("train epochs=0", r"recipe digits: epochs must be at least 1; got 0"),
    Fault("train epochs=1.5", r"recipe digits: epochs must be an integer; got 1.5"),
    Fault(f"train epochs={'9' * 30}", r"recipe digits: epochs must be an integer of 64 bits, .*; got one of 100"),
    Fault(f"train epochs={'9' * 5000}", r"recipe digits: epochs must be an integer; got '9+…"),
    Fault(f"train optimizer.learning_rate=1{'0' * 400}", r"recipe digits: optimizer.learning_rate must be .*; got inf"),
    Fault(f"train epochs={'[' * 5000}", r"recipe digits: epochs must be an integer; got '\[+…"),
    Fault("train model.width=1000000000000", r"recipe digits: model\.width must be at most 1048576; got 1000000000000"),
    Fault("train views.size=1000000", r"recipe digits: views\.size must be at most 16384; got 1000000"),
    Fault("train evaluation.draws=1000000000", r"recipe digits: evaluation\.draws must be at most 10000; got 1"),
    Fault("train seed=-1", r"recipe digits: seed must be at least 0; got -1"),
    Fault("train epoch=3", r"recipe digits: epoch is no setting; did you mean epochs\?"),
    Fault("train data.root.x=3", r"recipe digits: data\.root must be a text or \"none\"; got"),
    Fault("train --data pairs:nowhere.npz", r"nowhere\.npz: no such file; check the path"),
    Fault("train --data pairs:", r"recipe pairs: data\.name must say where after pairs:; got 'pairs:'"),
    Fault("train --data pairs:pairs.npz", r"pairs\.npz must be a whole \.npz file", flipped("pairs.npz", 0.4)),
    Fault(
        "train --data folder:images", r".*images.*must be an image; got a file that is not", holds("images/0.png", "x")
    ),
    Fault("train --data folder:images", r".*images.*must be a whole image; got", cut("images/0.png")),
    Fault("train --config /dev/zero", r"/dev/zero must be TOML, in UTF-8; got .*: a line of more than 65536 bytes"),
    Fault(
        "train selection.selector.method=[]", r"recipe digits: selection\.selector\.method must be one of .*; got \[\]"
    ),
    Fault("train --config nowhere.toml", r"nowhere\.toml: No such file or directory; check the path"),
    Fault("train --config settings.toml", r"settings\.toml must be TOML; got", holds("settings.toml", "a = = 1")),
    Fault(
        "train --config settings.toml", r"settings\.toml must be TOML; got", holds("settings.toml", "a = " + "[" * 5000)
    ),
    Fault(
        "train --config settings.toml", r"settings\.toml must be TOML, in UTF-8", holds("settings.toml", b"\xff\xfe")
    ),
    Fault(
        "train --config settings.toml", r"settings\.toml must be TOML; got", holds("settings.toml", f"a = {'1' * 5000}")
    ),
    Fault("train --config settings.toml", r"settings\.toml: data must be a table", holds("settings.toml", "data = 3")),
    Fault("train -o run", r"run must be a new or empty folder; --resume goes on with one; got run"),
    Fault("train -o run/again", r"run must lie outside the run in .*run, which is whole as it is; got run/again"),
    Fault("train -o x.npz", r"run must be a folder; got x\.npz, a file"),
    Fault("train --resume images", r"run must be the folder of a run, with its config\.toml; got images"),
    Fault("train --resume run epochs=3", r"--resume goes on with a run as it was begun"),
    Fault("train --resume run", r".*config\.toml must be TOML; got", holds("run/config.toml", "[")),
    Fault(
        "train --resume run",
        r".*run/plans must be a folder of the run itself; got a link to",
        linked("run/plans", "both"),
    ),
    Fault(
        "train --resume run",
        r".*checkpoints must hold a checkpoint to go on from; got .*step-00000008\.json must be of an undamaged",
        holds("run/checkpoints/step-00000008.json", "[]"),
    ),
    Fault(
        "train --resume run",
        r".*checkpoints must hold a checkpoint to go on from; got .*bytes where",
        cut("run/checkpoints/step-00000008.safetensors"),
    ),
    *(
        Fault(
            "train --resume run",
            rf"the checkpoint of step 8 in .*run must fit config\.toml.*; {says}",
            resealed(change),
        )
        for says, change in (
            (r"epoch must be an integer; got str", lambda found: found.facts.update(epoch="x")),
            (r"epoch must be at most 2; got 9", lambda found: found.facts.update(epoch=9)),
            (r"position must be at least 0; got -1", lambda found: found.facts.update(position=-1)),
            (r"lengths\.metrics must be an integer; got str", lambda found: found.facts["lengths"].update(metrics="3")),
            (r"plans must be a list of names; got int", lambda found: found.facts.update(plans=3)),
            (r"state\['over'\] must be True or", lambda found: found.facts["sampler"].update(over=2)),
            (r"state\['cosines'\] must be a list of", lambda found: found.facts["sampler"].update(cosines=[5, 5])),
            (r"state\['batches'\] must hold no sample", lambda found: found.tensors["planned.batches"].zero_()),
        )
    ),
    Fault("train --resume run", r".*result\.json must be JSON, undamaged; got", holds("run/result.json", "[3]")),
    Fault("train --resume run", r".*result\.json must be the result of a run; got", holds("run/result.json", "{}")),
]

DIVERGES = "optimizer.name=sgd optimizer.learning_rate=1e38 optimizer.warmup_epochs=0 model.encoder=mlp"
TRAIN.append(
    Fault(
        f"train --config settings.toml {DIVERGES} -o diverged --quiet",
        r"training has diverged: .* checkpoints and metrics up to there are in diverged\. A lower",
        code=1,
        leaves=("diverged",),
    )
)

OTHERS = [
    Fault("nonsense", r".*nonsense.*", lines=2),
    Fault("paper", r"`batchcut paper` must be followed by one of list, run; got nothing", lines=2),
    Fault("paper run nonsense", r"name must be a name that is known; got 'nonsense'", lines=2),
    Fault("paper run fig:toy_example --out x.npz", r"--out must be a folder, or a path where one can be made; got"),
    Fault("paper run fig:toy_example --out run", r"--out must lie outside the run in .*run, which is whole as it is"),
    Fault("paper run all --cifar images", r"--cifar must be the folder cifar-100-python, which holds the file train"),
    Fault("theory nonsense", r"LABEL must be a name that is known; got 'nonsense'", lines=2),
    Fault("theory --json --wrong", r".*--wrong.*", lines=2),
    Fault("demo --seeds 0", r"--seeds must be at least 1; got 0"),
    Fault("demo --ask …", r"--ask must have a letter from a to z or a digit; got '…'"),
    Fault("demo --data digits --ask sort", r"--ask must be left alone unless the data are functions, .*; got 'sort'"),
    Fault("demo --out run", r"--out must lie outside the run in .*run, which is whole as it is; got run"),
    Fault("evaluate images", r"RUN must be the folder of a run, with its config\.toml; got images"),
    Fault("evaluate run --draws 0", r"--draws must be at least 1; got 0"),
    Fault("evaluate run --severity 6 --corrupted made", r"--severity must be at most 5; got 6"),
    Fault("evaluate run --step 3", r"--step must be that of a checkpoint \(8\); got 3"),
    Fault("evaluate run --device nonsense", r"--device must be cpu, cuda, cuda:1, mps or the like; got 'nonsense'"),
    Fault("evaluate run -o run/scores.json", r"--out must lie outside the run in .*run, which is whole as it is; got"),
    Fault("evaluate run", r".*pairs\.npz must be a whole \.npz file of numbers", cut("pairs.npz")),
    Fault(
        "evaluate run",
        r".*step-00000008\.json must be of an undamaged",
        flipped("run/checkpoints/step-00000008.safetensors"),
    ),
    Fault("report", r"RUN must name at least one run; `batchcut train` or `batchcut demo` makes one"),
    Fault("report u.npy", r"u\.npy must be a plan saved by BatchPlan\.save; got "),
    Fault("report plan.npz", r"--embeddings must name two \.npy files, or one file with both sides, for the plan in p"),
    Fault("report plan.npz run", r"RUN must be one plan, or folders of runs; got plan\.npz run"),
    Fault(
        "report run --embeddings u.npy v.npy", r"--embeddings must be given with the file of a plan; folders of runs"
    ),
    Fault("report nowhere.npz --embeddings u.npy v.npy", r"nowhere\.npz: No such file or directory; check the path"),
    Fault("report plan.npz --embeddings u.npy", r"V must be given where U is a \.npy file"),
    Fault("report plan.npz --embeddings pairs.npz", r"u must have shape \(N, d\) with N = 24, the samples of the plan"),
    Fault("report plan.npz --embeddings x.npz -o x.npz", r"--out must be another file than those that are read; got x"),
    Fault("report plan.npz --embeddings x.npz --texts texts.txt", r"--texts must hold one for each of the 24 samples"),
    Fault("report images", r"RUN must be the folder of a run, or a folder of such; images has no config\.toml"),
    Fault(
        "report run -o run/config.toml", r"--out must lie outside the run in .*run, which is whole as it is; got run/c"
    ),
    Fault(
        "report run --texts texts.txt -o texts.txt", r"--out must be another file than those that are read; got texts"
    ),
    Fault("report run -o pairs.npz", r"--out must be another file than those that are read; got pairs\.npz"),
    Fault("evaluate run -o pairs.npz", r"--out must be another file than those that are read; got pairs\.npz"),
    Fault(
        "evaluate run -o images/0.png",
        r"--out must be another file than those that are read; got images",
        named_as_data("folder:images"),
    ),
    Fault(f"report run -o {LONG}", r"--out must be a path that a file can have; got n+ \(File name too long\)"),
    Fault(
        "report run --texts texts.txt", r"texts\.txt must be a text with a line .*in UTF-8", holds("texts.txt", b"\xff")
    ),
    Fault(
        "report run --texts groups.txt", r"--texts must hold a line for each of the 32 training samples; got 24 lines"
    ),
    Fault(
        "report run",
        r"run/config\.toml must hold the settings of a run; got seed",
        holds("run/config.toml", "seed = []"),
    ),
    Fault("report run", r"run/metrics\.jsonl, line 1, must be JSON, and an event", holds("run/metrics.jsonl", "[]\n")),
    Fault("report run", r"run/environment\.json must be JSON, undamaged", holds("run/environment.json", "{")),
    Fault("report run", r"run/result\.json must be JSON, undamaged; got", holds("run/result.json", "[" * 100_000)),
    Fault("report run", r"run/plans/epoch-0001\.npz must be a plan saved", flipped("run/plans/epoch-0001.npz", 0.4)),
    Fault(
        "report run",
        r"run/plans must hold plans of one set, of 32 samples; got 24",
        lambda folder: shutil.copy(folder / "plan.npz", folder / "run/plans/epoch-0002.npz"),
    ),
    Fault(
        "report run",
        r"run/embeddings/final\.safetensors must be a file of embeddings of this run, undamaged; got",
        holds("run/embeddings/final.safetensors", tensors({})),
    ),
    Fault(
        "report run",
        r"run/embeddings/last-plan\.safetensors must be a file of embeddings of this run, undamaged; got",
        lambda folder: shutil.copy(folder / "x.safetensors", folder / "run/embeddings/last-plan.safetensors"),
    ),
]


def test_the_scene_is_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "select both --batch-size 4 --groups groups.txt -o plan.npz", "train --resume run", "evaluate run"
    for line in (*words, "select x.safetensors --batch-size 4", "report run --texts texts.txt"):
        with pytest.raises(SystemExit) as stop:
            cli.main([*line.split(), "--quiet"])
        assert (stop.value.code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("fault", [*SELECT, *TRAIN, *OTHERS], ids=str)
def test_a_fault_is_one_line_and_leaves_the_disk_as_it_was(
    fault: Fault, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault.check(folder, capsys)


def piped(lines: int) -> str:
    """Groups from a pipe, as a shell gives them for <(...); it holds them all, so that nobody waits."""
    reading, writing = os.pipe()
    os.write(writing, "".join(f"{number}\n" for number in range(lines)).encode())
    os.close(writing)
    return f"/dev/fd/{reading}"


def test_groups_come_from_a_pipe_of_as_many_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([*S.split(), "--json", "--groups", piped(24)])
    assert (stop.value.code, capsys.readouterr().err) == (0, "")
    with pytest.raises(SystemExit) as stop:
        cli.main([*S.split(), "--groups", piped(1000)])
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith("one that fails: more than 24 lines\n")


@pytest.mark.parametrize("scale", [1e200, 1e307, 1e-200, 1e-310])
def test_embeddings_at_the_ends_of_float64(scale: float, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    u, v = (scale * np.load(folder / f"{side}.npy").astype(np.float64) for side in "uv")
    np.savez(folder / "x.npz", u=u, v=v)
    with pytest.raises(SystemExit) as stop:  # a warning would be an error
        cli.main([*S.split(), "--json"])
    said = capsys.readouterr()
    assert (stop.value.code, said.err) == (0, "")
    norms = [scale * np.linalg.norm(side / scale, axis=1) for side in (u, v)]
    assert json.loads(said.out)["norms"] == pytest.approx([np.min(norms), np.max(norms)], rel=1e-6, abs=0)


@pytest.mark.parametrize(
    "words", [f"{S} -o new.npz", f"{S} -o plan.npz", "report run -o new.html", "evaluate run -o new"]
)
def test_a_full_disk_names_the_file_and_leaves_what_was_there(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main([*words.split(), "--quiet"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = capsys.readouterr().err
    assert (stop.value.code, said) == (1, f"batchcut: {words.split()[-1]}: File too large\n")
    assert contents(folder) == before
