"""Search by two-tower encoders, small enough for a page: what `answers` does here, `search.js` does in a browser."""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchcut._errors import invalid
from batchcut._files import read_json, reading, write_json
from batchcut.data import TextFeatures, words_of

Floats = NDArray[np.float32]

_BUCKETS = 8192  # of n-grams, those of the most weight
_LEVELS = 31  # with both, features of sentences differ from those of all n-grams by a cosine of 0.9996 in the mean
_MOST_BYTES = 1 << 28
_QUESTIONS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Rounded:
    """A matrix (n, d) in small whole numbers: its row i is scales[i] · values[i].

    Attributes:
        values: (n, d) from −31 to 31, or to 127.
        scales: (n,), above 0.
    """

    values: NDArray[np.int8]
    scales: Floats

    @cached_property
    def matrix(self) -> Floats:
        """(n, d) floats."""
        return self.values * self.scales[:, None]


def rounded(matrix: NDArray[Any], levels: int = _LEVELS) -> Rounded:
    """The nearest matrix whose rows are whole numbers up to `levels` times one number each."""
    largest = np.abs(matrix).max(axis=1)
    scales = (np.where(largest > 0, largest, 1) / levels).astype(np.float32)
    return Rounded(np.rint(matrix / scales[:, None]).clip(-levels, levels).astype(np.int8), scales)


@dataclass(frozen=True, eq=False)
class SearchTower:
    """An encoder of questions, and what the encoder of the other side has made of all that can be found.

    Attributes:
        label: what it was trained with.
        layers: linear maps (h, d + 1), the last column of which is added; between two of them max(0, ·).
        answers: (n, dim) unit embeddings of all that can be found.
    """

    label: str
    layers: tuple[Rounded, ...]
    answers: Rounded

    def similarities(self, features: Floats) -> Floats:
        """(..., n) cosines of questions with features (..., d) and all that can be found."""
        hidden = features
        for number, layer in enumerate(self.layers):
            hidden = np.maximum(hidden, 0) if number else hidden
            hidden = hidden @ layer.matrix[:, :-1].T + layer.matrix[:, -1]
        cosines: Floats = (hidden / np.linalg.norm(hidden, axis=-1, keepdims=True)) @ self.answers.matrix.T
        return cosines


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Something found.

    Attributes:
        name: what it is called.
        text: what it does.
        similarity: the cosine of its embedding and the question's.
        learnt: whether it was trained on.
    """

    name: str
    text: str
    similarity: float
    learnt: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchIndex:
    """All that a search needs.

    Attributes:
        names: (n) of all that can be found; those that were trained on come first.
        texts: (n) what they do.
        learnt: how many were trained on.
        buckets: (k,) of n-grams, see `TextFeatures`.
        table: (k, d) their rows.
        towers: what is compared.
        questions: some to begin with.
    """

    names: tuple[str, ...]
    texts: tuple[str, ...]
    learnt: int
    buckets: NDArray[np.int64]
    table: Rounded
    towers: tuple[SearchTower, ...]
    questions: tuple[str, ...]

    def __post_init__(self) -> None:
        shapes = [(len(self.names), len(self.table.values)), (len(self.texts), len(self.buckets))]
        shapes += [(len(tower.answers.values), len(self.buckets)) for tower in self.towers]
        widths = [[self.table.values.shape[1]] for _ in self.towers]
        for tower, width in zip(self.towers, widths, strict=True):
            for layer in (layer.values for layer in tower.layers):
                width += [layer.shape[1] - 1, layer.shape[0]]
            width.append(tower.answers.values.shape[1])
        fits = all(width[0::2] == width[1::2] for width in widths)
        if len(set(shapes)) != 1 or not fits or not self.towers or not self.names:
            raise invalid("an index", "hold parts that fit each other", f"{shapes}, {widths}")

    @cached_property
    def features(self) -> TextFeatures:
        """What makes features of questions."""
        return TextFeatures(self.buckets, self.table.matrix)

    def answers(self, question: str, *, count: int = 5) -> dict[str, tuple[Answer, ...]]:
        """What each tower finds, most similar first; nothing where no n-gram of the question is known."""
        similarities = self._similarities(question)
        return {tower.label: self._best(similarities.get(tower.label), count) for tower in self.towers}

    def places(self, question: str) -> dict[str, int]:
        """Where each tower finds the function whose text is the question, first or later; nothing if there is none."""
        own = [place for place, text in enumerate(self.texts) if text == question]
        if not own:
            return {}
        return {
            label: 1 + int(np.count_nonzero(similarities > similarities[own].max()))
            for label, similarities in self._similarities(question).items()
        }

    @cached_property
    def verdict(self) -> str:
        """How often the last tower is better than the first at finding what was not trained on, in words."""
        first, last = self.towers[0], self.towers[-1]
        new = len(self.names) - self.learnt
        if not new or first is last:
            return ""
        gains = self._new_places(first) - self._new_places(last)
        better, worse = (f"{100 * np.mean(sign * gains > 0):.0f} %" for sign in (1, -1))
        return (
            f"Of the {new:,} functions that were not trained on, each asked by its own docstring, {last.label} "
            f"finds {better} at a better place than {first.label}, and {worse} at a worse one."
        )

    def _new_places(self, tower: SearchTower) -> NDArray[np.int64]:
        """Where a tower finds each of what was not trained on, asked by its text: the first is 1."""
        places: list[NDArray[np.int64]] = []
        for start in range(self.learnt, len(self.names), _QUESTIONS_AT_ONCE):
            texts = self.texts[start : start + _QUESTIONS_AT_ONCE]
            similarities = tower.similarities(self.features.encode(texts))
            own = similarities[np.arange(len(texts)), start + np.arange(len(texts))]
            places.append(1 + np.count_nonzero(similarities > own[:, None], axis=1))
        return np.concatenate(places)

    def _similarities(self, question: str) -> dict[str, Floats]:
        """Of all functions to the question, by tower; nothing where no n-gram of it is known."""
        check_question("question", question)
        (features,) = self.features.encode([question])
        return {tower.label: tower.similarities(features) for tower in self.towers} if features.any() else {}

    def _best(self, similarities: Floats | None, count: int) -> tuple[Answer, ...]:
        if similarities is None:
            return ()
        best = np.argsort(-similarities, kind="stable")[:count]
        return tuple(
            Answer(
                name=self.names[place],
                text=self.texts[place],
                similarity=float(similarities[place]),
                learnt=bool(place < self.learnt),
            )
            for place in best
        )


def check_question(argument: str, question: str) -> None:
    """Refuses a question without a word."""
    if not words_of(question):
        raise invalid(argument, "have a letter from a to z or a digit", repr(question))


def shortened_features(features: TextFeatures) -> tuple[NDArray[np.int64], Rounded]:
    """Buckets and table of features for an index: those of the most weight, rounded."""
    short = features.shortened(_BUCKETS)
    return short.buckets, rounded(short.table)


def search_facts(index: SearchIndex) -> dict[str, Any]:
    """An index in plain values; numbers and texts are compressed and in base64."""
    return {
        "ngrams": TextFeatures.NGRAMS,
        "bucketCount": TextFeatures.BUCKETS,
        "names": _packed("\n".join(index.names).encode()),
        "texts": _packed("\n".join(index.texts).encode()),
        "learnt": index.learnt,
        "buckets": _packed(index.buckets.astype("<u2").tobytes()),
        "table": _packed_matrix(index.table),
        "towers": [
            {
                "label": tower.label,
                "layers": [_packed_matrix(layer) for layer in tower.layers],
                "answers": _packed_matrix(tower.answers),
            }
            for tower in index.towers
        ],
        "questions": list(index.questions),
    }


def write_search(index: SearchIndex, path: Path) -> None:
    """Keeps an index in a file of JSON."""
    write_json(path, search_facts(index))


def read_search(path: Path) -> SearchIndex:
    """The index that a file holds."""
    rule = "be an index to search in, undamaged"
    facts = read_json(path, dict, rule)
    with reading(path, rule, found=""):
        towers = tuple(
            SearchTower(
                str(tower["label"]), tuple(map(_unpacked_matrix, tower["layers"])), _unpacked_matrix(tower["answers"])
            )
            for tower in facts["towers"]
        )
        buckets = np.frombuffer(_unpacked(facts["buckets"]), "<u2").astype(np.int64)
        if (buckets >= TextFeatures.BUCKETS).any():
            raise ValueError(f"bucket {buckets.max()}")
        return SearchIndex(
            names=tuple(_unpacked(facts["names"]).decode().split("\n")),
            texts=tuple(_unpacked(facts["texts"]).decode().split("\n")),
            learnt=int(facts["learnt"]),
            buckets=buckets,
            table=_unpacked_matrix(facts["table"]),
            towers=towers,
            questions=tuple(map(str, facts["questions"])),
        )


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _packed_matrix(matrix: Rounded) -> dict[str, Any]:
    values, scales = matrix.values.tobytes(), matrix.scales.astype("<f4").tobytes()
    return {"rows": len(matrix.values), "values": _packed(values), "scales": _packed(scales)}


def _unpacked(text: str) -> bytes:
    return zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _MOST_BYTES)


def _unpacked_matrix(facts: Mapping[str, Any]) -> Rounded:
    values = np.frombuffer(_unpacked(facts["values"]), np.int8).reshape(int(facts["rows"]), -1)
    scales = np.frombuffer(_unpacked(facts["scales"]), "<f4").astype(np.float32)
    if scales.shape != values.shape[:1] or not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(f"{scales.shape} scales of a matrix of shape {values.shape}")
    return Rounded(values, scales)


def joined_layer(weight: NDArray[Any], bias: NDArray[Any]) -> Rounded:
    """A linear map (h, d) and what it adds (h,), as a layer of a tower."""
    return rounded(np.column_stack([weight, bias]), levels=127)
