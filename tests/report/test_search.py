"""Search: small numbers for large ones, questions to answers, and the same in a browser as here."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import OpenPage

from batchcut.data._text_features import fit_text_features
from batchcut.report import SearchIndex, SearchTower, joined_layer, read_search, rounded, write_report, write_search
from batchcut.report._search import shortened_features

FUNCTIONS = {
    "numpy.linalg.norm": "Matrix or vector norm.",
    "numpy.sort": "Return a sorted copy of an array.",
    "scipy.optimize.nnls": "Solve argmin_x || Ax - b ||_2 for x>=0.",
    "scipy.optimize.lsq_linear": "Solve a linear least-squares problem with bounds on the variables.",
    "torch.nn.BatchNorm2d": "Applies Batch Normalization over a 4D input.",
    "json.dumps": "Serialize obj to a JSON formatted str.",
    "os.walk": "Directory tree generator.",
    "shutil.rmtree": "Recursively delete a directory tree.",
    "bz2.BZ2File.readline": "Read a line of uncompressed bytes from the file.",
    "sklearn.cluster.KMeans": "K-Means clustering.",
}
QUESTIONS = [
    "solve least squares with bounds",
    "sort an array",
    "Delete a directory TREE, and the directory tree in a directory",
    "BatchNorm2d over 4D inputs",
    "k-means a b",
    "norm naïve résumé",
    "JSONFormatted str</script>",
]


@pytest.fixture(scope="module")
def index() -> SearchIndex:
    """Towers with random weights: what they find is arbitrary, and must be the same everywhere."""
    names, texts = tuple(FUNCTIONS), tuple(FUNCTIONS.values())
    random = np.random.default_rng(0)
    buckets, table = shortened_features(fit_text_features([*names, *texts], dim=12))
    towers = []
    for label in ("Shuffle", "Cut"):
        layers = [
            joined_layer(random.normal(size=shape), random.normal(size=shape[0])) for shape in ((16, 12), (8, 16))
        ]
        rows = random.normal(size=(len(names), 8))
        answers = rounded(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        towers.append(SearchTower(label, tuple(layers), answers))
    return SearchIndex(
        names=names,
        texts=texts,
        learnt=6,
        buckets=buckets,
        table=table,
        towers=tuple(towers),
        questions=("sort an array", "walk"),
    )


@given(
    rows=st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), min_size=1, max_size=5),
    levels=st.sampled_from([31, 127]),
)
def test_rounding_is_to_the_nearest_of_so_many_levels(rows: list[list[float]], levels: int) -> None:
    matrix = np.array(rows, np.float32)
    small = rounded(matrix, levels)
    assert small.values.dtype == np.int8
    assert np.abs(small.values).max() <= levels
    assert (np.abs(small.matrix - matrix) <= 0.501 * small.scales[:, None]).all()


def test_answers_are_those_of_the_towers(index: SearchIndex) -> None:
    """Against the layers one by one, number by number."""
    for question in QUESTIONS:
        (features,) = index.features.encode([question])
        for tower in index.towers:
            first, second = (layer.matrix for layer in tower.layers)
            hidden = [max(0.0, sum(w * x for w, x in zip(row, [*features, 1.0], strict=True))) for row in first]
            query = np.array([sum(w * x for w, x in zip(row, [*hidden, 1.0], strict=True)) for row in second])
            cosines = {
                name: float(query @ row) / float(np.linalg.norm(query))
                for name, row in zip(index.names, tower.answers.matrix, strict=True)
            }
            found = index.answers(question)[tower.label]
            assert [answer.name for answer in found] == sorted(cosines, key=lambda name: -cosines[name])[:5]
            for answer in found:
                assert answer.similarity == pytest.approx(cosines[answer.name], abs=1e-5)
                assert answer.text == FUNCTIONS[answer.name]
                assert answer.learnt == (index.names.index(answer.name) < 6)


def test_the_place_of_a_function_is_asked_by_its_own_text(index: SearchIndex) -> None:
    text = index.texts[-1]
    for label, answers in index.answers(text, count=len(index.names)).items():
        of_text = [1 + place for place, answer in enumerate(answers) if answer.text == text]
        assert index.places(text)[label] == min(of_text)
    assert index.places(text + " of nobody") == {}


def test_says_how_often_the_last_tower_is_nearer(index: SearchIndex) -> None:
    """All that was not trained on, one by one."""
    new = [index.places(text) for text in index.texts[index.learnt :]]
    better = sum(places["Cut"] < places["Shuffle"] for places in new) / len(new)
    worse = sum(places["Cut"] > places["Shuffle"] for places in new) / len(new)
    assert 0 < better < 1
    assert index.verdict == (
        "Of the 4 functions that were not trained on, each asked by its own docstring, Cut finds "
        f"{100 * better:.0f} % at a better place than Shuffle, and {100 * worse:.0f} % at a worse one."
    )
    assert replace(index, learnt=10).verdict == replace(index, towers=index.towers[:1]).verdict == ""


def test_an_index_is_kept_and_read(index: SearchIndex, tmp_path: Path) -> None:
    write_search(index, tmp_path / "search.json")
    again = read_search(tmp_path / "search.json")
    assert again.questions == index.questions
    for question in QUESTIONS:
        assert again.answers(question) == index.answers(question)


def test_a_damaged_index_is_refused(index: SearchIndex, tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    write_search(index, path)
    facts = json.loads(path.read_text())
    for name, value in {
        "names": facts["texts"][:8],
        "texts": facts["buckets"],
        "table": facts["towers"][0]["answers"],
        "towers": [],
        "learnt": "many",
    }.items():
        path.write_text(json.dumps(facts | {name: value}))
        with pytest.raises(ValueError, match=r"search\.json must be an index to search in, undamaged; got"):
            read_search(path)


def test_questions_that_say_nothing(index: SearchIndex) -> None:
    with pytest.raises(ValueError, match=r"question must have a letter from a to z or a digit; got '…'"):
        index.answers("…")
    assert index.answers("qqq") == {"Shuffle": (), "Cut": ()}


@pytest.fixture(scope="module")
def path(runs: Path, index: SearchIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([runs], tmp_path_factory.mktemp("search") / "report.html", search=index)


def test_a_report_without_an_index_has_no_box(runs: Path, path: Path, tmp_path: Path) -> None:
    assert 'id="question"' in path.read_text()
    assert 'id="question"' not in write_report([runs], tmp_path / "report.html").read_text()


def test_the_page_finds_what_is_found_here(index: SearchIndex, path: Path, open_page: OpenPage) -> None:
    page = open_page(path)
    page.wait_for_selector("#answers li")
    assert page.input_value("#question") == "sort an array"
    for question in QUESTIONS:
        page.fill("#question", question)
        assert page.locator("#answers h3").all_text_contents() == ["Shuffle", "Cut"]
        found = page.locator("#answers ol").all()
        for part, answers in zip(found, index.answers(question).values(), strict=True):
            assert part.locator("code").all_text_contents() == [answer.name for answer in answers]
            for item, answer in zip(part.locator("li").all(), answers, strict=True):
                words = item.inner_text()
                assert f" {answer.similarity:.2f}" in words
                assert (" new" in words) != answer.learnt
                assert answer.text in words
    page.click("#samples li:last-child button")
    assert page.input_value("#question") == "walk"
    page.fill("#question", "qqq")
    assert page.locator("#answers li").count() == 0
    assert page.text_content("#ask-note") == "No function here has any of these letters."
    page.fill("#question", " ")
    assert page.text_content("#ask-note") == ""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_box_is_open_to_all_and_fits_a_phone(path: Path, open_page: OpenPage, dark: bool) -> None:
    page = open_page(path, width=360, dark=dark)
    page.wait_for_selector("#answers li")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
