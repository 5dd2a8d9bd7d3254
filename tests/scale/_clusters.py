"""Plans a set on two workers of a cluster on this machine, one of which is killed; prints whether the plan is the same.

In a process of its own: `python _clusters.py dask|ray|loky FOLDER`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import psutil
from tests.scale.conftest import make_pairs

from batchcut.scale import _memory, open_pair_files, plan_in_cells

Pids = Callable[[], list[int]]
OBJECTS = 100_000_000
"""Bytes that a node of Ray keeps for results, of which there are none: the least that it takes is 75 MB."""


@contextmanager
def dask() -> Iterator[Pids]:
    """Two worker processes of a `LocalCluster`."""
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        yield lambda: [worker.pid for worker in cluster.workers.values()]


@contextmanager
def ray() -> Iterator[Pids]:
    """Two nodes of a Ray cluster, with a processor each."""
    import ray as engine
    from ray.cluster_utils import Cluster
    from ray.util.joblib import register_ray

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": OBJECTS}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1, object_store_memory=OBJECTS)
        cluster.wait_for_nodes()
        engine.init(address=cluster.address, log_to_driver=False)
        assert len(engine.nodes()) == 2
        register_ray()
        with joblib.parallel_config(backend="ray", n_jobs=2):
            yield lambda: children("PoolActor")
    finally:
        engine.shutdown()
        cluster.shutdown()


@contextmanager
def loky() -> Iterator[Pids]:
    """Two processes of joblib's own."""
    with joblib.parallel_config(backend="loky", n_jobs=2):
        yield lambda: children("popen_loky_posix")


ENGINES = {"dask": dask, "ray": ray, "loky": loky}


def children(name: str) -> list[int]:
    """Processes that this one started, directly or not, with a name in their command."""
    found = psutil.Process().children(recursive=True)
    return [child.pid for child in found if child.is_running() and name in " ".join(child.cmdline())]


def kill_one(pids: Pids, cells: Path, killed: list[int]) -> None:
    """Kills a worker as soon as two cells are planned."""
    while len(list(cells.glob("*.npz"))) < 2:
        time.sleep(0.02)
    killed.append(pids()[0])
    os.kill(killed[0], signal.SIGKILL)


def main(engine: str, folder: Path) -> None:
    """Plans alone, then on the cluster."""
    for most, count in (("MOST_IN_CELL", 2048), ("MOST_IN_BLOCK", 8192)):
        setattr(_memory, most, count)
    for name, side in zip("uv", make_pairs(30_000, dim=16), strict=True):
        np.save(folder / f"{name}.npy", side)
    pairs = open_pair_files(folder / "u.npy", folder / "v.npy")
    alone = plan_in_cells(pairs, parts=folder / "alone", batch_size=32)
    killed: list[int] = []
    with ENGINES[engine]() as pids:
        killer = threading.Thread(target=kill_one, args=(pids, folder / "two" / "cells", killed), daemon=True)
        killer.start()
        two = plan_in_cells(pairs, parts=folder / "two", batch_size=32)
    print(f"killed {len(killed)}, cells {two.settings['cells']}, same {two == alone}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
