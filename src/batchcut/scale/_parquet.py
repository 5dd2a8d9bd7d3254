"""Parquet files, where pyarrow is installed."""

from pathlib import Path
from typing import Any

from batchcut._errors import needs


def open_parquet(path: Path, **options: bool) -> Any:
    """The `ParquetFile`; for the options see there."""
    with needs("pyarrow", ".parquet files"):
        import pyarrow.parquet
    return pyarrow.parquet.ParquetFile(path, **options)


def row_group_sizes(file: Any) -> list[int]:
    """How many rows each row group has."""
    return [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
