"""Commands that start processes of their own, and come to an end whatever those do."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
_WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {library!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name={library!r})

sys.meta_path.insert(0, Absent())
try:
    {statements}
except ImportError as error:
    print(error)
"""
_FAREWELL = 60  # torchrun gives its processes half of it


def ended(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; after so many seconds it is stopped, and the test fails with what it said.

    What it says goes to files: at the end of a pipe `subprocess.run` would wait for processes that outlive the command.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        process = subprocess.Popen(command, stdout=out, stderr=error, env=dict(env), cwd=cwd)
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            _stop(process)
        said = []
        for file in (out, error):
            file.seek(0)
            said.append(file.read())
    assert not late, f"{command} was at work for more than {seconds} s: {said[0][-4000:]}{said[1][-8000:]}"
    return subprocess.CompletedProcess(command, process.returncode, *said)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a command by a signal that it can pass on, or else by one that it cannot."""
    for signal in (process.terminate, process.kill):
        if process.poll() is None:
            signal()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_FAREWELL)


def printed_by(script: str) -> str:
    """What a Python script prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()


def error_without(library: str, statements: str) -> str:
    """The text of the ImportError of some statements, in one line, where a library is not installed."""
    return printed_by(_WITHOUT.format(library=library, statements=statements))
