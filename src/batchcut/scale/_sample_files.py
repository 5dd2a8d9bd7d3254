"""Which kind of files samples lie in."""

from pathlib import Path

from batchcut._errors import invalid

from ._memory import DEFAULT_MEMORY
from ._pair_files import FilePaths, file_paths
from ._parquet_samples import ParquetSampleFiles
from ._samples import SampleFiles
from ._tar_samples import TarSampleFiles


def open_sample_files(shards: FilePaths, *, index: Path | None = None, memory: int = DEFAULT_MEMORY) -> SampleFiles:
    """Tars or parquet files. Of tars, the index of their samples is, or will be, in the file `index`."""
    paths = file_paths("shards", shards)
    for path in paths:
        if path.suffix not in (".tar", ".parquet") or path.suffix != paths[0].suffix:
            rule = "be a .tar or a .parquet file, as all other shards are"
            raise invalid(str(path), rule, path.suffix or "no suffix")
    return TarSampleFiles(paths, index) if paths[0].suffix == ".tar" else ParquetSampleFiles(paths, memory)


def count_samples(shards: FilePaths) -> int:
    """How many samples files hold."""
    return sum(len(keys) for keys in open_sample_files(shards).all_keys())
