"""Pairs of texts for `finetune.py`: what Python functions do, and Debian's packages in short and at length."""

import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from batchcut.data import load_functions

SETS = ("functions", "debian")
LISTS = Path("/var/lib/apt/lists")

_CAT = ("/usr/lib/apt/apt-helper", "cat-file")  # reads what apt has compressed, in whichever way
_TEST_SHARE = 0.125
_LONGEST = 220  # characters of a long description: the model reads the first tokens alone
_SHORTEST = (10, 30)  # characters of both sides: below are names and placeholders
_MOVING = ("-security_", "-updates_", "-backports_")  # lists that change from week to week

Pair = tuple[str, str]
Rows = list[tuple[str, ...]]
Fields = Mapping[str, str]


@dataclass(frozen=True)
class TextPairs:
    """Pairs of texts in an order that hashes give, so that the first n are a sample of all.

    Attributes:
        train: Those to learn from.
        test: Those for the test, which share no function's name and no source package with the others.
    """

    train: tuple[Pair, ...]
    test: tuple[Pair, ...]

    @property
    def digest(self) -> str:
        """By which runs on other texts are told apart: another release of Debian, other versions of libraries."""
        return hashlib.sha256(repr((self.train, self.test)).encode()).hexdigest()[:8]


@cache
def load(name: str, lists: Path = LISTS) -> TextPairs:
    """A set by its name; `lists` is the folder of apt's lists, for `debian`."""
    if name == "debian":
        return debian_pairs(_all_stanzas(lists, "*_Packages*"), _all_stanzas(lists, "*_Translation-en*"))
    found = load_functions()
    train, test = (tuple(zip(part.sentences, part.calls, strict=True)) for part in (found.train, found.test))
    return TextPairs(train, test)


def debian_pairs(packages: Iterable[Fields], descriptions: Iterable[Fields]) -> TextPairs:
    """Short descriptions and the first paragraphs of the long ones; all packages of one source are in one part.

    Of descriptions that share either text, the first is kept.
    """
    source = {fields["Package"]: fields.get("Source", fields["Package"]).partition(" ")[0] for fields in packages}
    seen: set[str] = set()
    found: list[tuple[str, Pair]] = []
    for fields in descriptions:
        short, _, long = fields.get("Description-en", "").partition("\n")
        paragraph = " ".join(re.split(r"\n\.(?:\n|$)", long)[0].split())[:_LONGEST]
        told = len(short) >= _SHORTEST[0] and len(paragraph) >= _SHORTEST[1]
        if told and fields["Package"] in source and not seen & {short, paragraph}:
            seen |= {short, paragraph}
            found.append((fields["Package"], (short, paragraph)))
    parts: tuple[list[Pair], list[Pair]] = ([], [])
    # Another hash than that of the split: most packages have the name of their source.
    for package, pair in sorted(found, key=lambda one: _hash(f"order of {one[0]}")):
        parts[_hash(source[package]) < _TEST_SHARE * 2**64].append(pair)
    return TextPairs(tuple(parts[0]), tuple(parts[1]))


def fill(pairs: Sequence[Pair], found: Rows, count: int, seed: int) -> tuple[Rows, int]:
    """All pairs with negatives: those found or, for pairs that mining has left out, positives of random others.

    So all ways to train see the same pairs in as many steps. Returns also how many pairs were filled up.
    """
    negatives = {row[:2]: row[2:] for row in found}
    generator = np.random.default_rng(seed)
    rows: Rows = []
    for place, pair in enumerate(pairs):
        others = generator.choice(len(pairs) - 1, count, replace=False)
        random = tuple(pairs[other + (other >= place)][1] for other in others)
        rows.append(pair + negatives.get(pair, random))
    return rows, sum(pair not in negatives for pair in pairs)


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """The fields of each stanza of an apt list; a line that begins with a space continues the field above it."""
    for stanza in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.split("\n"):
            if line.startswith(" ") and name:
                fields[name] += "\n" + line[1:]
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if "Package" in fields:
            yield fields


def _all_stanzas(lists: Path, pattern: str) -> Iterator[dict[str, str]]:
    files = sorted(file for file in lists.glob(pattern) if not any(part in file.name for part in _MOVING))
    if not files:
        command = f"apt-get -o Acquire::Languages=en -o Dir::State::Lists={lists} update"
        raise FileNotFoundError(
            f"lists must hold files named {pattern}, which `{command}` fetches; got none in {lists}"
        )
    for file in files:
        done = subprocess.run([*_CAT, str(file)], capture_output=True, check=True)
        yield from stanzas(done.stdout.decode("utf-8", "replace"))


def _hash(text: str) -> int:
    """A number below 2⁶⁴ that is the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
