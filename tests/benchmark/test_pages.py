"""Pictures of trainings, for light and for dark pages."""

from pathlib import Path

from benchmarks.pages.training_report import CURVES, plot_batch_sizes, plot_curves


def test_the_picture_is_drawn_for_light_and_for_dark_pages(tmp_path: Path) -> None:
    lines = [
        {"data": data, "batch_size": size, "method": method, "top1": 0.7, "spread": spread}
        for data in ("pairs", "functions")
        for size, spread in ((32, 0.01), (64, None))
        for method in ("shuffle", "cut")
    ]
    light, dark = tmp_path / "light.svg", tmp_path / "dark.svg"
    plot_batch_sizes({"summary": lines}, light, dark)
    assert (
        light.read_text(encoding="utf-8").count("batch size")
        == dark.read_text(encoding="utf-8").count("batch size")
        > 0
    )
    assert "#16181c" in dark.read_text(encoding="utf-8")


def test_curves_are_drawn_for_light_and_dark_pages(tmp_path: Path) -> None:
    runs = [
        {"data": data, "method": method, "seed": seed, "curve": [(1, 0.2), (2, end)]}
        for data in CURVES
        for method, end in (("Shuffle", 0.3), ("Cut", 0.4))
        for seed in range(2)
    ]
    light, dark = tmp_path / "curves.svg", tmp_path / "curves-dark.svg"
    plot_curves({"runs": runs}, light, dark)
    assert light.read_text() != dark.read_text()
