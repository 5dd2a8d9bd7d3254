"""The page: complete, self-contained, and safe against what it is given."""

import json
import re
from pathlib import Path

import pytest
from tests.report._folders import SAMPLES, write_run

from batchcut.report import write_report


@pytest.fixture(scope="module")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = write_report([runs], tmp_path_factory.mktemp("page") / "new" / "report.html", title="A <title>")
    return path.read_text(encoding="utf-8")


def test_all_sections_are_there(page: str) -> None:
    for name in ("comparison", "time", "losses", "geometry", "explorer", "negatives", "settings"):
        assert f'<section id="{name}"' in page
        assert f'href="#{name}"' in page


def test_the_finding_is_what_the_runs_say(page: str) -> None:
    assert "Cut ends 5.0 ± 0.0 points above shuffled batches (65.5 % against 60.5 %)" in page
    assert "65.5 %</strong> ± 0.7" in page


def test_settings_and_the_command_are_there(page: str) -> None:
    assert "batchcut train</pre>" in page
    assert page.count("[selection.selector]") == 4


def test_the_command_for_the_same_again_is_there(page: str, runs: Path) -> None:
    assert f"<code>batchcut train --config {next(runs.glob('cut*'))}/config.toml</code>" in page


def test_shares_are_shares(page: str) -> None:
    table = page.partition("Share of the pairs in a batch")[2].partition("</table>")[0]
    cells = re.findall(r"<td>(.*?)</td>", table)
    assert len(cells) == len(re.findall(r'<th scope="col">', table)) - 1
    assert all(cell.endswith(" %") for cell in cells)


def test_a_key_names_the_lines_of_its_chart_alone(page: str) -> None:
    part = page.partition('id="negatives"')[2].partition("</section>")[0]
    assert re.findall(r"</svg>([^<]+)</li>", part) == ["Cut", "by chance"]
    drawn = part.partition("<figure>")[2].partition("</svg>")[0]
    assert len(re.findall("<polyline", drawn)) == 2
    comparison = page.partition('id="comparison"')[2].partition("</section>")[0]
    assert re.findall(r"</svg>([^<]+)</li>", comparison) == ["Shuffle", "Cut"]


def test_text_is_escaped(page: str) -> None:
    assert "<title>A &lt;title&gt;</title>" in page


def test_no_address_leaves_the_page(page: str) -> None:
    words = re.sub(r'data:image/[^")]+|id="data">.*?</script>', "", page, flags=re.DOTALL)  # Base64 may look like one
    assert not re.findall(r"(?:https?:)?//[a-z]", words)
    assert re.findall(r'(?:src|href)="(?!data:|#)', page) == []


def test_a_folder_is_no_page(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--out must be a file; got .*, a folder"):
        write_report([runs], tmp_path)


def test_where_shuffled_batches_win_the_page_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", method="shuffle")
    write_run(tmp_path / "runs" / "b", gain=-0.1)
    page = write_report([tmp_path / "runs"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No plan beats shuffled batches here: Cut ends 10.0 points below them (50.0 % against 60.0 %)." in page
    assert "never" in page


def test_where_plans_draw_level_the_page_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", method="shuffle")
    write_run(tmp_path / "runs" / "b")
    page = write_report([tmp_path / "runs"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Cut and shuffled batches end level (60.0 % against 60.0 %). But one seed is no verdict" in page


def test_runs_on_different_data_are_not_ranked(tmp_path: Path) -> None:
    for name, gain in (("digits", 0.0), ("pairs:gone.npz", 0.3)):
        for method in ("shuffle", "cut"):
            config = write_run(tmp_path / "runs" / f"{method}{gain}", method=method, gain=gain) / "config.toml"
            config.write_text(config.read_text().replace("'digits'", repr(name)))
    page = write_report([tmp_path / "runs"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "These runs are of different data or tests, and are not ranked against each other." in page
    assert page.count("end level") == 2
    assert len(re.findall('scope="rowgroup"', page)) == 2
    assert len(re.findall(r"<figcaption>Retrieval accuracy \(top-1\), ", page)) == 2


def test_texts_are_shown_and_cannot_end_the_script(tmp_path: Path) -> None:
    write_run(tmp_path / "cut")
    lines = [f"text {number} </script><b>" for number in range(SAMPLES - 1)] + ["x" * 500]
    (tmp_path / "texts.txt").write_text("\n".join(lines), encoding="utf-8")
    path = write_report([tmp_path / "cut"], tmp_path / "report.html", texts=tmp_path / "texts.txt")
    page = path.read_text(encoding="utf-8")
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert json.loads(found.group(1))["texts"][3] == "text 3 </script><b>"


@pytest.mark.parametrize("count", [2, SAMPLES + 1])
def test_too_few_or_too_many_texts(tmp_path: Path, count: int) -> None:
    write_run(tmp_path / "cut")
    (tmp_path / "texts.txt").write_text("text\n" * count, encoding="utf-8")
    message = rf"--texts must hold a line for each of the {SAMPLES} training samples; got {count} lines"
    with pytest.raises(ValueError, match=message):
        write_report([tmp_path / "cut"], tmp_path / "report.html", texts=tmp_path / "texts.txt")


def test_too_few_texts_for_samples_that_cannot_be_read(tmp_path: Path) -> None:
    config = write_run(tmp_path / "cut") / "config.toml"
    config.write_text(config.read_text().replace("'digits'", "'pairs:gone.npz'"))
    (tmp_path / "texts.txt").write_text("one\ntwo\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"--texts must hold a line for each .* at least .*; got 2 lines"):
        write_report([tmp_path / "cut"], tmp_path / "report.html", texts=tmp_path / "texts.txt")


@pytest.mark.parametrize("method", ["shuffle", "cut"])
def test_one_run_alone(tmp_path: Path, method: str) -> None:
    write_run(tmp_path / "run", method=method)
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert ("There are no batches to show" in page) == (method == "shuffle")


def test_a_run_that_has_just_begun_and_one_whose_data_is_gone(tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.toml").write_text("seed = 3\n[data]\nname = 'pairs:gone.npz'\n")
    page = write_report([tmp_path / "begun"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No run is finished yet." in page
    assert "Not finished: begun" in page


def test_a_page_that_is_too_large_is_refused(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchcut.report._page._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"a report must stay under 5 MB; got .* from 4 runs: name fewer"):
        write_report([runs], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_texts_that_are_not_text(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(
        ValueError, match=r"texts must be a text with a line for each training sample, for --texts, in UTF-8; got "
    ):
        write_report([runs], tmp_path / "report.html", texts=tmp_path / "texts")


def test_a_run_of_other_data_than_its_settings_name(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    settings = (run / "config.toml").read_text().replace("train = 96", "train = 50")
    (run / "config.toml").write_text(settings)
    text = r"^a run must be of the 50 samples that its config\.toml names; got a plan of 96$"
    with pytest.raises(ValueError, match=text):
        write_report([run], tmp_path / "report.html")
