"""Plans as parquet: a row for each sample of a batch, for any program that reads tables."""

import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from batchcut._errors import check_flag, invalid, needs, wrong_type
from batchcut._files import check_folder_of, check_target, existing_file, reading, write_whole
from batchcut.selection import BatchPlan, plan_facts, read_facts

from ._pair_files import FilePaths, Ints
from ._parquet import open_parquet
from ._sample_files import open_sample_files
from ._samples import SampleFiles

_FORMAT = "batchcut plan table 1"
_RULE = "be a plan written by write_plan_table"
_ROWS_AT_ONCE = 1 << 16
_NAME = b"batchcut"
_PLAN = ["sample", "batch", "position", "loss", "weight"]


def write_plan_table(plan: BatchPlan, path: str | os.PathLike[str], *, shards: FilePaths | None = None) -> None:
    """Writes a plan as parquet, a row for each sample of a batch, in the order of batches and positions.

    The columns: `sample`, its number; `batch` and `position`, its place in the plan; `shard`, the file that it lies in,
    and `key`, its name there: of a tar the key of WebDataset, of a parquet file the number of the row; `loss` and
    `weight` of the batch. All other facts of the plan are in the file's metadata, so that it reads back equal. The file
    is either complete or not there.

    `reshard` takes such a table for the same files alone: as many, with the same names, whatever their folder, and the
    same numbers of samples; tars with the same keys in the same order, parquet files of the same size and with the same
    footer. What samples hold is not compared.

    Args:
        plan: The plan.
        path: Where it is written; none of the shards.
        shards: The files of the samples, WebDataset tars or parquet: sample i is sample i of all of them together. If
            left out, `shard` and `key` are null. The keys of all samples are held in memory.
    """
    if not isinstance(plan, BatchPlan):
        raise wrong_type("plan", "be a BatchPlan", plan)
    target = _path(path)
    with needs("pyarrow", "plans in .parquet files"):
        import pyarrow.parquet
    files = None if shards is None else open_sample_files(shards)
    check_target("path", target, inputs=() if files is None else files.paths)
    check_folder_of("path", target)
    keys = [] if files is None else _all_keys(files)
    counts = [len(found) for found in keys]
    if files is not None:
        check_counts("plan", plan, files, counts)
    content = {
        "format": _FORMAT,
        "facts": plan_facts(plan),
        "batch_size": plan.batch_size,
        "left_over": plan.left_over.tolist(),
        "shards": None if files is None else [[str(path), n] for path, n in zip(files.paths, counts, strict=True)],
        "digests": None if files is None else files.digests(),
    }
    schema = pyarrow.schema(_columns(), metadata={_NAME: json.dumps(content)})
    places = _places(files, keys)

    def write(file: BinaryIO) -> None:
        with pyarrow.parquet.ParquetWriter(file, schema, write_page_checksum=True) as writer:
            for rows in _blocks_of(plan):
                shard, key = places(rows["sample"])
                writer.write_table(pyarrow.table({**rows, "shard": shard, "key": key}, schema=schema))

    write_whole(target, write)


def read_plan_table(path: str | os.PathLike[str], *, mapped: bool = False) -> BatchPlan:
    """Reads a plan that `write_plan_table` wrote; any other file is refused with a `ValueError`.

    With `mapped` the batches are not held in memory but in a temporary file without a name, which is gone with the
    plan.
    """
    source = existing_file(_path(path))
    check_flag("mapped", mapped)
    content, rows = _content(source)
    with reading(source, _RULE):
        size, facts = int(content["batch_size"]), read_facts(content["facts"])
        left_over = np.array(content["left_over"], np.int64)
        if size < 2 or not rows:
            raise ValueError(f"{rows} rows, for batches of {size}")
    losses, weights = np.zeros((2, -(-rows // size)))
    with tempfile.TemporaryFile() if mapped else io.BytesIO() as file:
        for first, block in _blocks_in(source, _PLAN):
            with reading(source, _RULE):
                _check_places(block, first, size)
            losses[block["batch"]], weights[block["batch"]] = block["loss"], block["weight"]
            file.write(block["sample"].tobytes())
        file.write(np.full(-rows % size, -1).tobytes())
        file.flush()
        batches: Ints
        if isinstance(file, io.BytesIO):
            batches = np.frombuffer(file.getvalue(), np.int64).reshape(-1, size)
        else:
            batches = np.memmap(file, np.int64, "r", shape=(len(losses), size))
    with reading(source, _RULE):
        return BatchPlan(batches=batches, losses=losses, weights=weights, left_over=left_over, **facts)


def _path(path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise wrong_type("path", "be a path", path)
    return Path(path)


def check_table_files(path: Path, files: SampleFiles, counts: list[int]) -> None:
    """Refuses other files than those that the table was written for, if it says which."""
    content = _content(path)[0]
    if content["shards"] is None:
        return
    with reading(path, _RULE):
        expected = [(Path(name).name, int(count)) for name, count in content["shards"]]
        digests = list(content.get("digests", []))
    for given, count, (name, planned) in zip(files.paths, counts, expected, strict=False):
        if (given.name, count) != (name, planned):
            rule = f"be {name} with {planned} samples, for which {path} was written"
            raise invalid(str(given), rule, f"{given.name} with {count}")
    if len(counts) != len(expected):
        missing = f"{len(counts)}, without {expected[len(counts)][0]}" if len(counts) < len(expected) else len(counts)
        raise invalid("shards", f"be the {len(expected)} files that {path} was written for", missing)
    for given, digest, planned_digest in zip(files.paths, files.digests(), digests, strict=False):
        if digest != planned_digest:
            rule = f"be the file for which {path} was written, of the same size and with the same footer"
            raise invalid(str(given), rule, f"another of {given.stat().st_size} bytes")
    _check_keys(path, files, counts)


def _check_keys(path: Path, files: SampleFiles, counts: list[int]) -> None:
    """Refuses files that have another sample where the table has one."""
    ends = np.cumsum(counts)
    for _, block in _blocks_in(path, ["sample", "shard", "key"]):
        names = [Path(name).name for name in block["shard"]]
        there = files.are_at(block["sample"], names, block["key"])
        if not there.all():
            k = int(there.argmin())
            given = files.paths[int(np.searchsorted(ends, block["sample"][k], side="right"))]
            rule = f"hold the samples for which {path} was written, in the same order"
            raise invalid(str(given), rule, f"no {block['key'][k]!r} where sample {block['sample'][k]} is")


def check_counts(argument: str, plan: BatchPlan, files: SampleFiles, counts: list[int]) -> None:
    """Refuses files that hold more or fewer samples than the plan is for."""
    if sum(counts) != plan.count:
        each = ", ".join(f"{path} {count}" for path, count in zip(files.paths, counts, strict=True))
        rule = f"be a plan of the {sum(counts)} samples in these files ({each[:300]}{'…' if len(each) > 300 else ''})"
        raise invalid(argument, rule, f"one of {plan.count}")


def _all_keys(files: SampleFiles) -> list[Any]:
    """Those of each file, as texts of a table, which are UTF-8; so are the names of the files."""
    _texts("shards", "be paths in UTF-8, as texts of a table are", [str(path) for path in files.paths])
    rule = "have keys in UTF-8, as texts of a table are"
    return [_texts(str(path), rule, keys) for path, keys in zip(files.paths, files.all_keys(), strict=True)]


def _texts(argument: str, rule: str, values: list[str]) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values, pyarrow.string())
    except UnicodeEncodeError as error:
        raise invalid(argument, rule, repr(error.object)) from error


def _columns() -> list[tuple[str, Any]]:
    import pyarrow as pa

    whole, text, number = pa.int64(), pa.string(), pa.float64()
    kinds = {"sample": whole, "batch": whole, "position": pa.int32(), "shard": text, "key": text}
    return [*kinds.items(), ("loss", number), ("weight", number)]


def _blocks_of(plan: BatchPlan) -> Iterator[dict[str, Any]]:
    """The rows of the table but for shard and key, some batches at a time."""
    step = max(1, _ROWS_AT_ONCE // plan.batch_size)
    for start in range(0, len(plan), step):
        samples = np.asarray(plan.batches[start : start + step])
        used = samples >= 0
        row, position = np.nonzero(used)
        batch = start + row
        yield {
            "sample": samples[used],
            "batch": batch,
            "position": position.astype(np.int32),
            "loss": plan.losses[batch],
            "weight": plan.weights[batch],
        }


def _places(files: SampleFiles | None, keys: list[Any]) -> Callable[[Ints], tuple[Any, Any]]:
    """Of samples: the names of their files, and their keys."""
    import pyarrow

    if files is None:
        return lambda samples: (pyarrow.nulls(len(samples)), pyarrow.nulls(len(samples)))
    names = pyarrow.array([str(path) for path in files.paths])
    ends = np.cumsum([len(found) for found in keys])
    joined = pyarrow.chunked_array(keys)

    def places(samples: Ints) -> tuple[Any, Any]:
        shards = np.searchsorted(ends, samples, side="right")
        return names.take(pyarrow.array(shards)), joined.take(pyarrow.array(samples))

    return places


def _content(path: Path) -> tuple[dict[str, Any], int]:
    """What the metadata say of the plan, and how many rows there are."""
    with reading(path, _RULE), _opened(path) as file:
        content = json.loads((file.schema_arrow.metadata or {}).get(_NAME, b"{}"))
        if content.get("format") != _FORMAT:
            raise ValueError(f"format {content.get('format')!r} is not {_FORMAT!r}")
        return dict(content), int(file.metadata.num_rows)


def _opened(path: Path) -> Any:
    return open_parquet(path, page_checksum_verification=True)


def _blocks_in(path: Path, columns: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Some rows after the other, with the number of the first; texts as lists, numbers as arrays."""
    first = 0
    with reading(path, _RULE), _opened(path) as file:
        for found in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
            yield first, {name: _values(found.column(name), name) for name in columns}
            first += found.num_rows


def _values(column: Any, name: str) -> Any:
    """A column, if it is of the kind that is written: other programs may have made its numbers shorter or longer."""
    import pyarrow

    wanted = dict(_columns())[name]
    if _kind(column.type) != _kind(wanted):
        raise TypeError(f"{name} as {column.type}, not {wanted}")
    if column.null_count:
        raise ValueError(f"rows without {name}")
    if _kind(wanted) == "text":
        return column.to_pylist()
    try:
        return column.cast(wanted).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{name} as {column.type}, beyond {wanted}") from error


def _kind(column_type: Any) -> str | None:
    from pyarrow import types

    if types.is_integer(column_type):
        return "integer"
    if types.is_floating(column_type):
        return "number"
    return "text" if types.is_string(column_type) or types.is_large_string(column_type) else None


def _check_places(block: dict[str, Any], first: int, size: int) -> None:
    places = np.arange(first, first + len(block["sample"]))
    if not (np.array_equal(block["batch"], places // size) and np.array_equal(block["position"], places % size)):
        raise ValueError(f"rows from {first} on that are not in the order of batches and positions")
