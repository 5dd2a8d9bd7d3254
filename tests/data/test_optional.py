"""Libraries are loaded when they are used, and missed with a word on what to install."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.data._make import random_pixels, write_picture
from tests.data.test_pairs import arrays, write_parquet

ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {library!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name={library!r})

sys.meta_path.insert(0, Absent())
from batchcut.data import load
try:
    load({name!r})
except ImportError as error:
    print(error)
"""


def printed_by(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("library", ["PIL", "pyarrow"])
def test_a_missing_library_is_named_with_what_to_install(library: str, tmp_path: Path) -> None:
    if library == "PIL":
        for row in range(2):
            write_picture(tmp_path / f"{row}.png", random_pixels(1, 3, 4)[0])
        name, start = f"folder:{tmp_path}", "images in files need pillow"
    else:
        name, start = f"pairs:{write_parquet(tmp_path, arrays())}", "pairs in .parquet files need pyarrow"
    text = f'{start}, and {library} is not installed: pip install "batchcut[train]" brings it'
    assert printed_by(ABSENT.format(library=library, name=name)) == text


def test_importing_loads_nothing_heavy() -> None:
    loaded = set(printed_by("import sys; from batchcut import data; data.load; print('\\n'.join(sys.modules))").split())
    assert "numpy" in loaded
    assert not loaded & {"torch", "PIL", "pyarrow", "safetensors", "sklearn", "scipy", "rich"}
