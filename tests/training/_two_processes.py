"""One of two processes under torchrun: `_two_processes.py RUN CONFIG [STOP_AT]`."""

import gc
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from batchcut.training import config_of, read_toml, resume, train


def main(run: Path, config: Path, stop_at: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

    def observe(event: Mapping[str, Any]) -> None:
        if event["event"] == "progress" and event["step"] == stop_at:
            os._exit(3)  # as a kill would; at an orderly end torch may wait for the other process

    if (run / "config.toml").exists():
        resume(run, observe=observe)
    else:
        train(config_of(read_toml(config), source=str(config)), run, observe=observe)
    gc.collect()  # the model is gone, and both are done, before the group is
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else -1)
