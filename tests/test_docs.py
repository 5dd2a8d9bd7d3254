"""The documentation builds, and a warning is an error."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="mkdocs is an extra: pip install 'batchcut[docs]'"
)
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert "PlannedBatchSampler" in (tmp_path / "api" / "sampling" / "index.html").read_text(encoding="utf-8")
