"""Trains in a process of its own, which kills itself at a given place: `_stepwise.py RUN CONFIG PLACE`.

A place is a number of writes, renames, syncs and steps, counted together, after which the process gets SIGKILL. So any
moment between two changes to the folder can be reached, the same one each time.
"""

import builtins
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from batchcut.training import config_of, read_toml, resume, train


def main(run: Path, config: Path, place: int) -> None:
    torch.set_num_threads(1)
    left = place

    def count(_: object = None) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*values: Any, **named: Any) -> Any:
            result = function(*values, **named)
            count()
            return result

        return wrapper

    os.fsync = counted(os.fsync)
    Path.replace = counted(Path.replace)  # type: ignore[method-assign]
    Path.unlink = counted(Path.unlink)  # type: ignore[method-assign]
    if (run / "config.toml").exists():
        result = resume(run, observe=count)
    else:
        result = train(config_of(read_toml(config), source=str(config)), run, observe=count)
    builtins.print(result.steps, place - left)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
