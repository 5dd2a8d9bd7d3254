"""Examples run, and what the documents show is what runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SNIPPET = re.compile(r"<!-- (?P<path>\S+\.py) -->\n```python\n(?P<code>.*?)```", re.DOTALL)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def code_of(path: Path) -> str:
    """The file without its docstring."""
    return re.sub(r'^""".*?"""\n+', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_snippets_are_tested_files(document: Path) -> None:
    for match in SNIPPET.finditer(document.read_text(encoding="utf-8")):
        assert match["code"] == code_of(ROOT / match["path"])


def test_readme_shows_the_first_example() -> None:
    assert [match["path"] for match in SNIPPET.finditer((ROOT / "README.md").read_text(encoding="utf-8"))] == [
        "examples/first_steps.py"
    ]


def test_first_steps() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "first_steps.py")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    shuffled, planned = map(float, re.findall(r"shuffled ([\d.]+), planned ([\d.]+)\n", printed)[0])
    assert planned > 5 * shuffled
    assert f"planned batches {planned:.3f}" in printed
    assert re.search(r"optimum (2\.\d{6}) = \1$", printed.strip())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_every_erratum_that_a_claim_names_is_described() -> None:
    errata = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    described = {int(number) for number in re.findall(r"^\*\*(\d+)\.", errata, flags=re.MULTILINE)}
    claims = ROOT / "src" / "batchcut" / "theory" / "claims"
    named = {int(x) for path in claims.glob("*.py") for x in re.findall(r"erratum=(\d+)", path.read_text("utf-8"))}
    assert named
    assert named <= described
    assert described == set(range(1, max(described) + 1))
