"""The guides show what runs, and it runs."""

import re
import sys
from pathlib import Path

import pytest
from tests._launch import TORCHRUN
from tests.integrations._runs import ROOT, completed
from tests.test_examples import SNIPPET, code_of

GUIDES = {
    "clip.md": ["clip_loop.py"],
    "hugging-face.md": ["with_accelerate.py", "with_trainer.py"],
    "lightning.md": ["with_lightning.py"],
    "sentence-transformers.md": ["with_sentence_transformers.py"],
}
LIGHTNING_USES_A_CLASS_THAT_TORCH_HAS_DEPRECATED = "ignore::FutureWarning"


def output(name: str, *, processes: int = 1, warnings: tuple[str, ...] = ("error",)) -> str:
    """What an example prints."""
    alone = [sys.executable, *(flag for warning in warnings for flag in ("-W", warning))]
    return completed([*(alone if processes == 1 else TORCHRUN), str(ROOT / "examples" / name)]).stdout


@pytest.mark.parametrize(("guide", "examples"), GUIDES.items())
def test_guides_show_the_examples(guide: str, examples: list[str]) -> None:
    text = (ROOT / "docs" / "guides" / guide).read_text(encoding="utf-8")
    shown = {match["path"]: match["code"] for match in SNIPPET.finditer(text)}
    assert shown == {f"examples/{name}": code_of(ROOT / "examples" / name) for name in examples}


def test_every_guide_here_is_a_file() -> None:
    assert {path.name for path in Path(ROOT / "docs" / "guides").glob("*.md")} >= set(GUIDES)


@pytest.mark.slow
def test_lightning() -> None:
    printed = output("with_lightning.py", warnings=("error", LIGHTNING_USES_A_CLASS_THAT_TORCH_HAS_DEPRECATED))
    assert re.search(r"mean loss of the batches as planned: \d\.\d+", printed)


@pytest.mark.slow
def test_accelerate() -> None:
    assert re.findall(r"epoch (\d) ends with loss \d\.\d+", output("with_accelerate.py")) == ["0", "1", "2"]


@pytest.mark.slow
def test_trainer() -> None:
    assert re.search(r"mean loss of the batches as planned: \d\.\d+", output("with_trainer.py"))


@pytest.mark.slow
def test_sentence_transformers() -> None:
    printed = output("with_sentence_transformers.py")
    assert "pairs of rows with a text in common in one batch: 0" in printed


@pytest.mark.slow
def test_clip_loop_is_the_same_on_one_process_and_on_two() -> None:
    one, two = (
        [
            float(loss)
            for loss in re.findall(r"epoch \d: 14 batches, loss (\d\.\d{4})", output("clip_loop.py", processes=n))
        ]
        for n in (1, 2)
    )
    assert len(one) == 3
    assert two == pytest.approx(one, rel=0.05)  # rounding can tip a plan to other batches that are as hard
    assert two[0] == one[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["with_lightning.py", "with_accelerate.py", "with_trainer.py", "with_sentence_transformers.py"]
)
def test_examples_run_in_two_processes(name: str) -> None:
    assert output(name, processes=2)
