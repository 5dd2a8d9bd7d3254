"""Plans a set on the workers of a cluster on this machine, one of which comes into trouble; prints what came out.

In a process of its own: `python _clusters.py ENGINE TROUBLE FOLDER`.
"""

import os
import resource
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


BARE = """
import sys
from importlib.abc import MetaPathFinder

class NotInstalled(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "batchcut":
            raise ModuleNotFoundError("No module named 'batchcut'", name="batchcut")

sys.meta_path.insert(0, NotInstalled())
"""


@contextmanager
def bare() -> Iterator[Pids]:
    """Two workers of Dask that have no batchcut; for a single one joblib would work by itself."""
    from dask.distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        LocalCluster(**settings, preload=[BARE]) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        yield lambda: [worker.pid for worker in cluster.workers.values()]


ENGINES = {"dask": dask, "ray": ray, "loky": loky, "bare": bare}


def children(name: str) -> list[int]:
    """Processes that this one started, directly or not, with a name in their command."""
    found = psutil.Process().children(recursive=True)
    return [child.pid for child in found if child.is_running() and name in " ".join(child.cmdline())]


def kill_one(pids: Pids, parts: Path) -> None:
    """Kills a worker as soon as two cells are planned."""

    def kill() -> None:
        while len(list((parts / "cells").glob("*.npz"))) < 2:
            time.sleep(0.02)
        os.kill(pids()[0], signal.SIGKILL)
        print("killed", flush=True)

    threading.Thread(target=kill, daemon=True).start()


def fill_disk(pids: Pids, _: Path) -> None:
    """Lets one worker of Dask write no file of more than some bytes."""
    from dask.distributed import get_client

    client = get_client()
    workers = client.run(os.getpid)
    (one,) = (address for address, pid in workers.items() if pid == pids()[0])
    client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY), workers=[one])


TROUBLES = {"killed": kill_one, "full": fill_disk, "none": lambda *_: None}


def main(engine: str, trouble: str, folder: Path) -> None:
    """Plans alone, then on the cluster, where there is trouble."""
    from tests.scale.conftest import make_pairs  # here, since workers import this module, and some have no batchcut

    from batchcut.scale import _memory, open_pair_files, plan_in_cells

    for most, count in (("MOST_IN_CELL", 2048), ("MOST_IN_BLOCK", 8192)):
        setattr(_memory, most, count)
    for name, side in zip("uv", make_pairs(30_000, dim=16), strict=True):
        np.save(folder / f"{name}.npy", side)
    pairs = open_pair_files(folder / "u.npy", folder / "v.npy")
    alone = plan_in_cells(pairs, parts=folder / "alone", batch_size=32)
    try:
        with ENGINES[engine]() as pids:
            TROUBLES[trouble](pids, folder / "two")
            two = plan_in_cells(pairs, parts=folder / "two", batch_size=32)
    except (OSError, RuntimeError) as error:
        left = [path.name for path in (folder / "two").rglob("*.unfinished")]
        print(f"{type(error).__name__}: {error}; unfinished {left}", flush=True)
        two = plan_in_cells(pairs, parts=folder / "two", batch_size=32)
    print(f"cells {two.settings['cells']}, same {two == alone}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
