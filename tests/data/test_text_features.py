import numpy as np
import pytest

from batchcut.data._text_features import fit_text_features, words_of

TEXTS = [
    "Add two numbers.",
    "Add two rows.",
    "numpy.linalg.norm(x, ord=None)",
    "Return the norm of x.",
    "sort(a, axis=-1)",
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Add two numbers.", "add two numbers"),
        ("nn.BatchNorm2d(num_features, eps=1e-05)", "nn batch norm 2 d num features eps 1 e 05"),
        ("FFTSize ReLU LSTM", "fft size re lu lstm"),
        ("…", ""),
    ],
)
def test_words(text: str, words: str) -> None:
    assert words_of(text) == words


def test_features_are_unit_vectors() -> None:
    rows = fit_text_features(TEXTS, dim=4).encode(TEXTS)
    assert rows.shape == (5, 4)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)


def test_features_of_all_dimensions_keep_the_angles() -> None:
    """With as many dimensions as texts nothing is lost: cosines are those of the weighted n-grams, counted by hand."""
    from collections import Counter

    counted = []
    for text in TEXTS:
        grams: Counter[str] = Counter()
        for word in words_of(text).split():
            padded = f" {word} "
            for size in (3, 4, 5):
                grams.update(padded[start : start + size] for start in range(max(1, len(padded) - size + 1)))
                if len(padded) <= size:
                    break  # a short word counts once
        counted.append(grams)
    names = sorted(set().union(*counted))
    found = np.array([[grams[name] for name in names] for grams in counted], float)
    weights = np.log((1 + len(TEXTS)) / (1 + (found > 0).sum(axis=0))) + 1
    rows = np.where(found > 0, 1 + np.log(np.maximum(found, 1)), 0) * weights
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ours = fit_text_features(TEXTS, dim=len(TEXTS)).encode(TEXTS)
    np.testing.assert_allclose(ours @ ours.T, rows @ rows.T, atol=1e-5)


def test_the_same_texts_give_the_same_features() -> None:
    first, again = (fit_text_features(TEXTS, dim=3).encode(["Add two columns."]) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_features_are_those_of_the_pipeline() -> None:
    """Against scikit-learn's own steps, one after another."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    hashing = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), n_features=2**15, alternate_sign=False, norm=None
    )
    steps = (TfidfTransformer(sublinear_tf=True), TruncatedSVD(3, n_iter=2, random_state=0), Normalizer())
    pipeline = make_pipeline(hashing, *steps).fit([words_of(text) for text in TEXTS])
    queries = ["add the numbers of a row, and add them", "norm of rows"]
    ours = fit_text_features(TEXTS, dim=3).encode(queries)
    np.testing.assert_allclose(ours, pipeline.transform(queries), atol=1e-6)


def test_shortened_features_leave_out_what_weighs_least() -> None:
    features = fit_text_features(TEXTS, dim=4)
    count = len(features.buckets)
    np.testing.assert_array_equal(features.shortened(count).encode(TEXTS), features.encode(TEXTS))
    short = features.shortened(count // 2)
    lengths = {int(bucket): np.linalg.norm(row) for bucket, row in zip(features.buckets, features.table, strict=True)}
    kept = [lengths.pop(int(bucket)) for bucket in short.buckets]
    assert len(kept) == count // 2
    assert min(kept) >= max(lengths.values())


def test_a_text_with_nothing_in_common_is_zero() -> None:
    np.testing.assert_array_equal(fit_text_features(TEXTS[:2], dim=2).encode(["qqq"]), np.zeros((1, 2)))


def test_bad_texts() -> None:
    features = fit_text_features(TEXTS, dim=2)
    with pytest.raises(TypeError, match="texts must be a list of texts; got str"):
        features.encode("Add two numbers.")
    with pytest.raises(ValueError, match=r"texts must each have a letter from a to z or a digit; got '…'"):
        features.encode(["add", "…"])
    with pytest.raises(ValueError, match="dim must be at most 5; got 6"):
        fit_text_features(TEXTS, dim=6)
