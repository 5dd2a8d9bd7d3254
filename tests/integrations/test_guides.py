"""The guides show what runs, and it runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations._runs import ROOT
from tests.test_examples import SNIPPET, code_of

GUIDES = {
    "clip.md": ["clip_loop.py"],
    "hugging-face.md": ["with_accelerate.py", "with_trainer.py"],
    "lightning.md": ["with_lightning.py"],
    "sentence-transformers.md": ["with_sentence_transformers.py"],
}
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
LIGHTNING_USES_A_CLASS_THAT_TORCH_HAS_DEPRECATED = "ignore::FutureWarning"


def output(name: str, *, processes: int = 1, warnings: tuple[str, ...] = ("error",)) -> str:
    """What an example prints."""
    flags = [flag for warning in warnings for flag in ("-W", warning)] if processes == 1 else []
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    command = [sys.executable, *flags, *launcher, str(ROOT / "examples" / name)]
    done = subprocess.run(command, env=ENVIRONMENT, timeout=150, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout


@pytest.mark.parametrize(("guide", "examples"), GUIDES.items())
def test_guides_show_the_examples(guide: str, examples: list[str]) -> None:
    text = (ROOT / "docs" / "guides" / guide).read_text(encoding="utf-8")
    shown = {match["path"]: match["code"] for match in SNIPPET.finditer(text)}
    assert shown == {f"examples/{name}": code_of(ROOT / "examples" / name) for name in examples}


def test_every_guide_here_is_a_file() -> None:
    assert {path.name for path in Path(ROOT / "docs" / "guides").glob("*.md")} >= set(GUIDES)


def test_lightning() -> None:
    printed = output("with_lightning.py", warnings=("error", LIGHTNING_USES_A_CLASS_THAT_TORCH_HAS_DEPRECATED))
    assert re.search(r"mean loss of the batches as planned: \d\.\d+", printed)


def test_accelerate() -> None:
    assert re.findall(r"epoch (\d) ends with loss \d\.\d+", output("with_accelerate.py")) == ["0", "1", "2"]


def test_trainer() -> None:
    assert re.search(r"mean loss of the batches as planned: \d\.\d+", output("with_trainer.py"))


def test_sentence_transformers() -> None:
    printed = output("with_sentence_transformers.py")
    assert "pairs of rows with a text in common in one batch: 0" in printed


def test_clip_loop_is_the_same_on_one_process_and_on_two() -> None:
    one = output("clip_loop.py")
    assert len(re.findall(r"epoch \d: 14 batches, loss \d\.\d{4}", one)) == 3
    assert output("clip_loop.py", processes=2) == one


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["with_lightning.py", "with_accelerate.py", "with_trainer.py", "with_sentence_transformers.py"]
)
def test_examples_run_in_two_processes(name: str) -> None:
    assert output(name, processes=2)
