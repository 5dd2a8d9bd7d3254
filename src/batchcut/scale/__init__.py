"""Plans of sets that are larger than memory, or than one machine: embeddings in files, planned cell by cell.

    pairs = open_pair_files("u.npy", "v.npy")
    plan = plan_in_cells(pairs, parts="parts", batch_size=256)

A map, in the order of the steps:

    _shards.py         some of the embeddings, in a file or two
    _group_labels.py   the groups of samples, as numbers
    _parquet_pairs.py  shards that are parquet files
    _pair_files.py     all shards, and those that are mapped into memory
    _memory.py         how many samples fit into the memory given
    _parts.py          the folder of the parts that are done
    _engine.py         tasks on joblib's backends
    _blocks.py         samples are put in the order of the centres that they are nearest to
    _cells.py          which is cut into cells of whole batches, each planned by itself (selection/_cells.py)
    _plan_in_cells.py  all of it

And what becomes of a plan:

    _parquet.py        parquet files
    _samples.py        samples in files, which plans are about
    _tar_samples.py    those in WebDataset tars
    _parquet_samples.py  those that are rows of parquet files
    _sample_files.py   which of the two they are
    _plan_table.py     a plan as a table in a parquet file
    _reshard.py        the files rewritten in the order of a plan
"""

from ._pair_files import PairFiles as PairFiles
from ._pair_files import open_pair_files as open_pair_files
from ._plan_in_cells import plan_in_cells as plan_in_cells
from ._plan_table import read_plan_table as read_plan_table
from ._plan_table import write_plan_table as write_plan_table
from ._reshard import Resharded as Resharded
from ._reshard import reshard as reshard

__all__ = [
    "PairFiles",
    "Resharded",
    "open_pair_files",
    "plan_in_cells",
    "read_plan_table",
    "reshard",
    "write_plan_table",
]

# For our other packages, and not part of the reference:
from ._blocks import memory_for as memory_for
from ._sample_files import count_samples as count_samples
