"""Texts as short vectors: hashed character n-grams, weighted by tf-idf, reduced by a truncated SVD."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_integer, invalid, wrong_type

Floats = npt.NDArray[np.float32]

_ITERATIONS = 2  # of the randomised SVD, which takes most of the time
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """A map from texts to unit vectors.

    With x the counts of a text's n-grams in 2¹⁵ buckets, t(x) = 1 + log x where x > 0, w the inverse document
    frequencies and V: (2¹⁵, dim) the leading right singular vectors of the rows (t(x) ⊙ w) / ‖t(x) ⊙ w‖ of the texts
    that it was fitted on, a text becomes t(x) diag(w) V, divided by its norm.

    Attributes:
        buckets: (k,) those that count, in rising order; n-grams in others add nothing.
        table: (k, dim) their rows of diag(w) V.
    """

    NGRAMS: ClassVar[tuple[int, int]] = (3, 5)
    BUCKETS: ClassVar[int] = 2**15

    buckets: npt.NDArray[np.int64]
    table: npt.NDArray[np.floating[Any]]

    def encode(self, texts: Sequence[str]) -> Floats:
        """(n, dim) unit vectors of n texts, each with at least one letter from a to z or digit."""
        counts = _counts(texts)[:, self.buckets]
        counts.data = 1 + np.log(counts.data)
        rows = counts @ self.table
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        units: Floats = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)  # nothing in common with V: zeros
        return units

    def shortened(self, most: int) -> "TextFeatures":
        """The same but for n-grams of little weight: the `most` longest rows of the table alone."""
        longest = np.sort(np.argsort(-np.linalg.norm(self.table, axis=1), kind="stable")[:most])
        return TextFeatures(self.buckets[longest], self.table[longest])


def fit_text_features(texts: Sequence[str], *, dim: int) -> TextFeatures:
    """The map to `dim` numbers that keeps most of what tells these texts apart; a function of them alone."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    check_integer("dim", dim, at_least=1, at_most=len(texts))
    counts = _counts(texts)
    weights = TfidfTransformer(sublinear_tf=True)
    reduction = TruncatedSVD(dim, n_iter=_ITERATIONS, random_state=0).fit(weights.fit_transform(counts))
    seen = np.unique(counts.indices).astype(np.int64)  # the rows of V are zero elsewhere
    return TextFeatures(seen, weights.idf_[seen, None] * reduction.components_.T[seen])


def words_of(text: str) -> str:
    """The words of a text or of code in small letters: `BatchNorm2d(num_features)` to `batch norm 2 d num features`.

    Without this the words of a name have no beginning and no end, which n-grams of sentences do have.
    """
    return " ".join(_WORD.findall(text)).lower()


def _counts(texts: Sequence[str]) -> Any:
    """(n, 2¹⁵) how often each text has an n-gram, within words and with the spaces around them; sparse."""
    from sklearn.feature_extraction.text import HashingVectorizer

    if isinstance(texts, str):
        raise wrong_type("texts", "be a list of texts", texts)
    words = [words_of(text) for text in texts]
    if "" in words:
        raise invalid("texts", "each have a letter from a to z or a digit", repr(texts[words.index("")]))
    hashed = HashingVectorizer(
        analyzer="char_wb",
        ngram_range=TextFeatures.NGRAMS,
        n_features=TextFeatures.BUCKETS,
        alternate_sign=False,
        norm=None,
        lowercase=False,
    )
    return hashed.transform(words)
