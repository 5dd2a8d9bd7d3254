"""Runs that `batchcut train` knows nothing of are looked at with one call: those of the examples, as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = """
import runpy, sys
from batchcut.report import write_plan_report

found = runpy.run_path(sys.argv[1], run_name="__main__")
planned = eval(sys.argv[2], found)
texts = found["dataset"]["anchor"] if "planned" in found else None
write_plan_report(planned.plan, planned.bank.u, planned.bank.v, "plan.html", texts=texts)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "planned"),
    [
        ("pytorch_loop", "loader"),
        ("with_lightning", "loader"),
        ("with_accelerate", "loader"),
        ("with_trainer", "trainer.sampler"),
        ("with_sentence_transformers", "planned.samplers[0]"),
    ],
)
def test_one_call_after_the_example(example: str, planned: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(EXAMPLES / f"{example}.py"), planned]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert '<th scope="row">effective batch size</th>' in page
    assert ("a red cat by the house" in page) == (example == "with_sentence_transformers")
