"""Finds an official data set in the root folder, or fetches and unpacks it there."""

import errno
from pathlib import Path

from ._download import Transfer, checksum, fetch
from ._extract import extract
from ._official import Archive, Source


def existing(path: Path) -> Path:
    """Returns `path`, if there is such a file."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
    return path


def obtain_folder(archive: Archive, root: Path, *, download: bool, progress: Transfer | None = None) -> Path:
    """The folder of an unpacked archive.

    An archive that lies in `root` is checked and unpacked; one that is fetched is deleted after that.
    """
    folder = root / archive.folder
    if folder.is_dir():
        return folder
    packed = root / archive.source.name
    if packed.is_file():
        _check_sum(archive.source, packed)
        return extract(packed, root, folder=archive.folder, limit=archive.unpacked)
    if not download:
        raise _missing(archive.source, folder)
    fetch(archive.source, packed, progress=progress)
    extract(packed, root, folder=archive.folder, limit=archive.unpacked)
    packed.unlink()
    return folder


def obtain_file(source: Source, folder: Path, *, download: bool, progress: Transfer | None = None) -> Path:
    """A published file in `folder`, packed as it is published or, where its name ends in .gz, unpacked."""
    for path in (folder / source.name.removesuffix(".gz"), folder / source.name):
        if path.is_file():
            return path
    if not download:
        raise _missing(source, folder / source.name)
    return fetch(source, folder / source.name, progress=progress)


def _check_sum(source: Source, path: Path) -> None:
    found = checksum(path, source.checksum.partition(":")[0])
    if found != source.checksum:
        raise ValueError(
            f"{path} must have the checksum {source.checksum}; got {found}: delete it, and --download (download=True) "
            "fetches it again"
        )


def _missing(source: Source, wanted: Path) -> FileNotFoundError:
    size = f"{source.size / 1e6:,.0f} MB" if source.size >= 1e6 else f"{source.size / 1e3:,.0f} kB"
    return FileNotFoundError(
        f"{wanted} is not there: --download (download=True) fetches {size} from {source.addresses[0]}; "
        "--root FOLDER (root=...) names the folder in which it lies"
    )
