"""A folder with all that verbs read, small and whole, and what damages it."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file
from tests.scale._shards import write_rows, write_tars
from tests.training._runs import pairs_config, write_pairs

from batchcut import cli
from batchcut.scale import write_plan_table
from batchcut.selection import Shuffle
from batchcut.training import KeepingSettings, train
from batchcut.training._checkpoint import Checkpoint, load_checkpoint, save_checkpoint

Damage = Callable[[Path], object]


@dataclass(frozen=True)
class Fault:
    """Words for the command line, what is said of them, and what was done to the scene before.

    Attributes:
        words: as a user types them, in the scene.
        says: a regular expression for all after "batchcut: ".
        damage: what was done to the scene.
        code: with which it ends.
        leaves: what may be made or changed, by the beginning of its path.
        lines: how many the message has.
    """

    words: str
    says: str
    damage: Damage | None = None
    code: int = 2
    leaves: tuple[str, ...] = ()
    lines: int = 1

    def __str__(self) -> str:
        return f"{self.words[:40]}-{self.says[:40]}"

    def check(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Says the words in the scene: the fault is one line, and the disk is left as it was."""
        if self.damage is not None:
            self.damage(folder)
        before = contents(folder)
        with pytest.raises(SystemExit) as stop:
            cli.main(self.words.split())
        said = capsys.readouterr()
        assert (stop.value.code, said.out) == (self.code, ""), said.err
        assert re.match(f"batchcut: (.*/)?({self.says})", said.err), said.err
        assert said.err.count("\n") == self.lines, said.err
        after = contents(folder)
        assert {name for name in after.keys() - before.keys() if not name.startswith(self.leaves)} == set()
        assert {name: after.get(name) for name in before} == before


def make_scene(folder: Path) -> None:
    """Embeddings in all formats, a run on pairs, groups, texts, settings, images and a plan."""
    write_pairs(folder / "pairs.npz", samples=32, tests=16)
    keeping = KeepingSettings(checkpoints=1, checkpoint_steps=0, embeddings=8)
    train(pairs_config(folder / "pairs.npz", epochs=2, keeping=keeping), folder / "run")
    u, v = np.random.default_rng(0).standard_normal((2, 24, 6)).astype(np.float32)
    np.save(folder / "u.npy", u)
    np.save(folder / "v.npy", v)
    np.savez(folder / "x.npz", u=u, v=v)
    save_file({"u": u, "v": v}, folder / "x.safetensors")
    (folder / "both").mkdir()
    np.save(folder / "both" / "u.npy", u)
    np.save(folder / "both" / "v.npy", v)
    (folder / "groups.txt").write_text("".join(f"{number // 2}\n" for number in range(24)))
    (folder / "texts.txt").write_text("".join(f"text {number}\n" for number in range(32)))
    (folder / "settings.toml").write_text("epochs = 2\nbatch_size = 8\n[data]\nname = 'pairs:pairs.npz'\n")
    (folder / "images").mkdir()
    for number in range(12):
        Image.fromarray(np.full((8, 8), 20 * number, np.uint8)).save(folder / "images" / f"{number}.png")
    plan = Shuffle()(u, v, batch_size=4)
    plan.save(folder / "plan.npz")
    shards = write_tars(folder, 10, 14)
    write_plan_table(plan, folder / "plan.parquet", shards=shards)
    write_rows(folder, 10, 14)


def contents(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder; None for what is no file."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def holds(name: str, content: bytes | str) -> Damage:
    """The file gets another content."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(data)


def cut(name: str, share: float = 0.6) -> Damage:
    """The file ends too soon."""
    return lambda folder: (folder / name).write_bytes(
        (folder / name).read_bytes()[: int(share * (folder / name).stat().st_size)]
    )


def flipped(name: str, place: float = 0.5) -> Damage:
    """A byte of the file is another."""

    def damage(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[int(place * len(data))] ^= 0xFF
        (folder / name).write_bytes(data)

    return damage


def resealed(change: Callable[[Checkpoint], object]) -> Damage:
    """The checkpoint of the run says something else, and its checksums say that this is so."""

    def damage(folder: Path) -> None:
        checkpoint = load_checkpoint(folder / "run" / "checkpoints", 8)
        change(checkpoint)
        save_checkpoint(folder / "run" / "checkpoints", checkpoint, keep=1)

    return damage


def named_as_data(name: str) -> Damage:
    """The settings of the run name other data."""

    def damage(folder: Path) -> None:
        settings = folder / "run" / "config.toml"
        settings.write_text(re.sub('name = "pairs:.*"', f'name = "{name}"', settings.read_text()))

    return damage


def linked(name: str, target: str) -> Damage:
    """A link in place of what was there, which gets another name."""

    def damage(folder: Path) -> None:
        if (folder / name).exists():
            (folder / name).rename(folder / f"{name.replace('/', '-')}-before")
        (folder / name).symlink_to(folder / target)

    return damage


def arrays(name: str, **content: object) -> Damage:
    """An `.npz` file of other arrays."""
    return lambda folder: np.savez(folder / name, **{key: np.asarray(value) for key, value in content.items()})  # type: ignore[arg-type]


def npy_header(shape: str, descr: str = "'<f4'") -> bytes:
    """The beginning of a `.npy` file that says this."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"
    text = text.ljust((-(len(text) + 11) % 64) + len(text)) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def tensors(header: object) -> bytes:
    """A `.safetensors` file with such a header and a few bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(64)
