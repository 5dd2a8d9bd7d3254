"""Examples run, and what the documents show is what runs."""

import gc
import os
import re
import runpy
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests._launch import TORCHRUN, ended

from batchcut.cli._app import VERBS, parsed

ROOT = Path(__file__).parent.parent
SNIPPET = re.compile(r"<!-- (?P<path>\S+\.py) -->\n```python\n(?P<code>.*?)```", re.DOTALL)
INCLUDED = re.compile(r'^```python\n--8<-- "(?P<path>\S+\.py)"\n```', re.MULTILINE)
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Run:
    """How an example is run, and what its last lines must say.

    Attributes:
        prints: a pattern that its output must match.
        options: of the example itself.
        leaves_files_open: as webdataset does with a file that it has read to its end.
    """

    prints: str
    options: tuple[str, ...] = ()
    leaves_files_open: bool = False


RUNS = {
    "pytorch_loop": Run(r"epoch 3: 20 batches, mean loss \d\.\d+\nCut\(.*\n  asked     640 samples, batch size 32"),
    "resume": Run(r"14 \+ 16 batches; the same as without a stop: True"),
    "simclr_images": Run(
        r"^1,438 images .* among 359 others\nShuffle  top-1 \d\d\.\d%\nCut      top-1 \d\d\.\d%$",
        options=("--epochs", "2"),
    ),
    "two_towers_features": Run(
        r"^4,000 pairs .* among 1,000 others\nShuffle  top-1 \d\d\.\d%, .*\nCut      top-1 \d\d\.\d%, .*$",
        options=("--epochs", "3", "--replan-every", "2", "--fill"),
    ),
    "false_negatives": Run(
        r"Cut, no guard +[78]\d\d pairs of one story, .*\n(.*\n)*Cut with groups +0 pairs of one story"
    ),
    "effective_size": Run(r"(τ = 0\.\d+: mean loss \d\.\d\d, effective batch size \d+ \(\d+ to \d+\)\n){4}"),
    "one_plan": Run(r"^\(15, 64\)\nCut\((.*\n)*read again, it is the same: True"),
    "large_sets": Run(
        r"^\('shard-000000\.tar', .*\(5, 5, 5, 5\)\n20 batches of 32, the last with loss \d\.\d\d$",
        leaves_files_open=True,
    ),
    "with_sogclr": Run(r"(epoch \d: the last loss is -?\d\.\d{3}\n){3}"),
    "streams": Run(r"30 batches of a stream: mean loss 1\.\d+ as they come, 2\.\d+ planned\nafter 30 steps .*: 0\.\d+"),
}


def code_of(path: Path) -> str:
    """The file without its docstring."""
    return re.sub(r'^""".*?"""\n+', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_snippets_are_tested_files(document: Path) -> None:
    for match in SNIPPET.finditer(document.read_text(encoding="utf-8")):
        assert match["code"] == code_of(ROOT / match["path"])


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Steps this small are faster with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("one_thread")
def test_examples_of_the_guides_run(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RUNS[name]
    path = str(ROOT / "examples" / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [path, *run.options])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if run.leaves_files_open:
            warnings.simplefilter("ignore", ResourceWarning)
        runpy.run_path(path, run_name="__main__")
        gc.collect()  # what it leaves behind is not the next test's
    printed = capsys.readouterr().out
    assert re.search(run.prints, printed), printed


@pytest.mark.slow
def test_many_processes() -> None:
    command = [*TORCHRUN, str(ROOT / "examples" / "many_processes.py")]
    done = ended(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    # torch 2.13 with gloo and DDP aborts now and then at the very end, also without batchcut; all work is done by then.
    assert done.returncode == 0 or "terminate called without an active exception" in done.stderr, done.stderr
    assert re.search(r"(epoch \d: 10 steps, every sample once: True\s+){3}", done.stdout), done.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_python_snippet_is_a_file(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert text.count("```python") == len(SNIPPET.findall(text)) + len(INCLUDED.findall(text))


def test_every_example_that_a_document_shows_is_run() -> None:
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    shown = {match["path"] for text in texts for way in (SNIPPET, INCLUDED) for match in way.finditer(text)}
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert {f"examples/{name}.py" for name in RUNS} <= shown
    assert all(Path(path).stem in RUNS or Path(path).name in tests for path in shown)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


COMMAND = re.compile(
    r"^(?:\$ )?(batchcut (?:demo|select|reshard|train|evaluate|report|paper|theory)\b[^#\n]*)", re.MULTILINE
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_a_document_shows_are_understood(document: Path) -> None:
    for command in COMMAND.findall(document.read_text(encoding="utf-8")):
        words = shlex.split(command)[1:]
        assert type(parsed(words)) in VERBS.values()


def test_every_erratum_that_a_claim_names_is_described() -> None:
    errata = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    described = {int(number) for number in re.findall(r"^\*\*(\d+)\.", errata, flags=re.MULTILINE)}
    claims = ROOT / "src" / "batchcut" / "paper" / "claims"
    named = {int(x) for path in claims.glob("*.py") for x in re.findall(r"erratum=(\d+)", path.read_text("utf-8"))}
    assert named
    assert named <= described
    assert described == set(range(1, max(described) + 1))
