import dataclasses
import json
import math
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from batchcut.losses.paper import contrastive_loss, minibatch_loss
from batchcut.theory import (
    Agreement,
    OpenCase,
    configuration_name,
    cross_polytope,
    open_case,
    optimal_loss,
    simplex_etf,
    spectrum,
)

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "open-case.json"


def polygon(n: int) -> Tensor:
    angles = 2 * math.pi / n * torch.arange(n, dtype=torch.float64)
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def orthogonal_sum(*parts: Tensor) -> Tensor:
    together: Tensor = torch.block_diag(*parts)
    return together


def cube() -> Tensor:
    signs: Tensor = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 3)
    return signs / 3**0.5


def antiprism(height: float = 0.56) -> Tensor:
    upper = polygon(4) * math.sqrt(1 - height**2)
    turn: Tensor = math.sqrt(0.5) * torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64)
    level = torch.full((4, 1), height, dtype=torch.float64)
    return torch.cat([torch.cat([upper, level], dim=1), torch.cat([upper @ turn, -level], dim=1)])


@pytest.fixture(scope="module")
def bipyramid() -> OpenCase:
    return open_case(5, 3, starts=6)


def test_five_points_on_the_sphere(bipyramid: OpenCase) -> None:
    full = bipyramid.full
    assert full.loss == pytest.approx(1.58111486507, abs=1e-10)
    assert full.name == "segment ⊕ triangle"  # the triangular bipyramid
    assert full.symmetric
    assert full.centred
    assert not full.antipodal
    assert full.gradient < 1e-9
    assert full.curvature == pytest.approx(0.033, abs=1e-3)
    assert bipyramid.symmetric_loss == pytest.approx(full.loss, abs=1e-11)
    assert [(round(x, 6) + 0.0, count) for x, count in full.spectrum] == [(-1, 1), (-0.5, 3), (0, 6)]


def test_five_points_agree_for_every_batch_size(bipyramid: OpenCase) -> None:
    assert [agreement.found.batch_size for agreement in bipyramid.batches] == [2, 3, 4]
    wanted = [0.52214759400, 0.93920046853, 1.28544103652]
    assert [agreement.found.loss for agreement in bipyramid.batches] == pytest.approx(wanted, abs=1e-9)
    assert all(agreement.agrees for agreement in bipyramid.batches)


def test_the_square_is_found_and_its_loss_is_the_closed_form() -> None:
    case = open_case(4, 2, starts=4, batch_sizes=[2], temperature=0.5)
    assert case.full.name == "square"
    assert case.full.antipodal
    assert case.full.loss == pytest.approx(optimal_loss(4, 2, temperature=0.5), abs=1e-11)
    assert case.batches[0].found.loss == pytest.approx(optimal_loss(4, 2, batch_size=2, temperature=0.5), abs=1e-11)


def test_seven_points_in_four_dimensions_refute_the_generalisation() -> None:
    """The orthogonal sum minimises the full-batch loss, and not the mean over all pairs."""
    orthogonal = orthogonal_sum(simplex_etf(2, 1), simplex_etf(2, 1), simplex_etf(3, 2))
    case = open_case(7, 4, starts=4, batch_sizes=[2])
    (agreement,) = case.batches
    assert case.full.name == "segment ⊕ segment ⊕ triangle"
    assert case.full.loss == pytest.approx(float(contrastive_loss(orthogonal, orthogonal)), abs=1e-11)
    assert not agreement.agrees
    pairs = minibatch_loss(agreement.found.u, agreement.found.v, "all", batch_size=2)
    assert float(pairs) < float(minibatch_loss(orthogonal, orthogonal, "all", batch_size=2)) - 1e-5


def test_the_cube_beats_the_antiprism_for_pairs_and_loses_for_the_full_batch() -> None:
    pairs = {name: float(minibatch_loss(u, u, "all", batch_size=2)) for name, u in solids().items()}
    full = {name: float(contrastive_loss(u, u)) for name, u in solids().items()}
    assert min(pairs, key=lambda name: pairs[name]) == "cube"
    assert full["cube"] > min(full.values()) + 1e-4


def test_pairs_let_eight_points_on_the_circle_coincide() -> None:
    """A counterexample by hand: four points, each taken twice, beat the regular octagon for B = 2."""
    near, far = math.log1p(math.exp(-1)), math.log1p(math.exp(-2))
    twice = polygon(4).repeat(2, 1)
    lower = float(minibatch_loss(twice, twice, "all", batch_size=2))
    assert lower == pytest.approx((4 * 2 * math.log(2) + 8 * 2 * far + 16 * 2 * near) / 28, abs=1e-14)
    assert lower < float(minibatch_loss(polygon(8), polygon(8), "all", batch_size=2)) - 4e-4
    assert float(contrastive_loss(polygon(8), polygon(8))) < float(contrastive_loss(twice, twice)) - 8e-3


def solids() -> dict[str, Tensor]:
    heights = torch.linspace(0.3, 0.8, 201).tolist()
    return {"cube": cube(), **{f"antiprism {height:.4f}": antiprism(height) for height in heights}}


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 6), spread=st.floats(0.01, 3))
@settings(max_examples=100, deadline=None)
def test_the_steps_of_the_proof_for_twice_as_many_points_as_dimensions(seed: int, d: int, spread: float) -> None:
    """Each inequality of the proof in docs/open-case.md, far from the cross-polytope and near it."""
    n, c = 2 * d, math.exp(-1)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, d, dtype=torch.float64, generator=generator)
    u = torch.nn.functional.normalize(cross_polytope(n, d) + spread * noise, dim=1)
    x = u @ u.T
    a = n + math.e - 2 - c
    z, y = x.sum(dim=1), (x**2).sum(dim=1)
    slack = 1e-10
    assert bool((x.exp() >= 1 + x + c * x**2 - slack).all())
    assert bool((x.exp().sum(dim=1) >= a + z + c * y - slack).all())
    assert float((a + z).log().mean()) >= math.log(a) - slack
    assert float(y.log().mean()) >= math.log(2) - slack
    assert float(contrastive_loss(u, u)) >= 2 * math.log(a + 2 * c) - 2 - slack
    assert optimal_loss(n, d) == pytest.approx(2 * math.log(a + 2 * c) - 2, abs=1e-12)
    assert float(minibatch_loss(u, u, "all", batch_size=2)) >= optimal_loss(n, d, batch_size=2) - slack


def pair_loss(t: Tensor) -> Tensor:
    return 2 * torch.log1p((t - 1).exp())


def cubic() -> tuple[float, float, float, float]:
    """Coefficients of the cubic that meets the loss of a pair at -1, 0 (twice) and 1."""
    low, middle, high = pair_loss(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)).tolist()
    slope = 2 / (1 + math.e)
    return middle, slope, (high + low) / 2 - middle, (high - low) / 2 - slope


def test_the_cubic_of_the_proof_for_pairs() -> None:
    h0, h1, h2, h3 = cubic()
    assert min(h1, h2, h3) > 0
    t = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    assert bool((pair_loss(t) >= h0 + h1 * t + h2 * t**2 + h3 * t**3 - 1e-15).all())
    # The quotient grows, as the fifth derivative is negative, and starts above zero.
    share = torch.sigmoid(t - 1)
    fifth = 2 * share * (1 - share) * (1 - 2 * share) * (1 - 12 * share * (1 - share))
    assert bool((fifth[:-1] < 0).all())
    assert 2 / (1 + math.exp(2)) - (h1 - 2 * h2 + 3 * h3) == pytest.approx(0.002618, abs=1e-6)


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 4), times=st.integers(1, 3), spread=st.floats(0.01, 3))
@settings(max_examples=60, deadline=None)
def test_for_pairs_nothing_is_below_the_repeated_cross_polytope(seed: int, d: int, times: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    repeated = cross_polytope(2 * d, d).repeat(times, 1)
    noise = torch.randn(len(repeated), d, dtype=torch.float64, generator=generator)
    u = torch.nn.functional.normalize(repeated + spread * noise, dim=1)
    lowest = float(minibatch_loss(repeated, repeated, "all", batch_size=2))
    assert float(minibatch_loss(u, u, "all", batch_size=2)) >= lowest - 1e-12


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("times", [2, 3])
def test_a_turn_of_one_copy_lowers_the_full_batch_loss(d: int, times: int) -> None:
    generator = torch.Generator().manual_seed(d)
    turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator)).Q
    copy = cross_polytope(2 * d, d)
    repeated, turned = copy.repeat(times, 1), torch.cat([copy.repeat(times - 1, 1), copy @ turn])
    sums = (repeated @ repeated.T).exp().sum(dim=1)
    assert bool(((turned @ turned.T).exp().sum(dim=1) < sums - 1e-6).all())
    assert float(contrastive_loss(turned, turned)) < float(contrastive_loss(repeated, repeated)) - 1e-6
    pairs = (float(minibatch_loss(x, x, "all", batch_size=2)) for x in (turned, repeated))
    assert next(pairs) > next(pairs)


@pytest.mark.parametrize(
    ("u", "name"),
    [
        (simplex_etf(4, 3), "tetrahedron"),
        (simplex_etf(6, 5), "6-simplex"),
        (cross_polytope(4, 2), "square"),
        (cross_polytope(6, 3), "octahedron"),
        (cross_polytope(10, 5), "cross-polytope"),
        (polygon(5), "pentagon"),
        (polygon(9), "9-gon"),
        (orthogonal_sum(polygon(5), simplex_etf(2, 1)), "pentagon ⊕ segment"),
        (orthogonal_sum(simplex_etf(3, 2), simplex_etf(4, 3)), "tetrahedron ⊕ triangle"),
        (cube(), "cube"),
        (antiprism(), "square antiprism"),
        (polygon(4).repeat(2, 1), "2-fold square"),
        (polygon(5).repeat(3, 1), "3-fold pentagon"),
    ],
)
def test_known_configurations_are_named_in_any_position(u: Tensor, name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(u.shape[1], u.shape[1], dtype=torch.float64, generator=generator)).Q
    assert configuration_name((u @ turn)[torch.randperm(len(u), generator=generator)]) == name


def test_unknown_configurations_have_no_name() -> None:
    generator = torch.Generator().manual_seed(0)
    assert configuration_name(torch.nn.functional.normalize(torch.randn(7, 3, generator=generator), dim=1)) == ""
    bent = polygon(5).clone()
    bent[0] = torch.tensor([math.cos(0.01), math.sin(0.01)])
    assert configuration_name(bent) == ""


def test_spectrum_counts_pairs() -> None:
    assert spectrum(cross_polytope(6, 3)) == ((-1.0, 3), (0.0, 12))
    ((product, count),) = spectrum(simplex_etf(4, 3))
    assert product == pytest.approx(-1 / 3)
    assert count == 6


def test_records_are_frozen(bipyramid: OpenCase) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        bipyramid.n = 3  # type: ignore[misc]


def test_agreement_needs_both_directions(bipyramid: OpenCase) -> None:
    found = bipyramid.full
    assert Agreement(found=found, excess_of_full=0, excess_of_batches=-1e-16).agrees
    assert not Agreement(found=found, excess_of_full=1e-6, excess_of_batches=0).agrees
    assert not Agreement(found=found, excess_of_full=0, excess_of_batches=1e-6).agrees


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"n": 4, "d": 3},
            "n must be above d + 1 = 4; up to there the simplex ETF is optimal (simplex_etf); got 4",
        ),
        ({"n": 1, "d": 3}, "n must be at least 2; got 1"),
        ({"n": 4, "d": 1}, "d must be at least 2; got 1"),
        ({"n": 5, "d": 3, "batch_sizes": [1]}, "batch_sizes must be at least 2; got 1"),
        ({"n": 5, "d": 3, "batch_sizes": [2, 5]}, "batch_sizes must be at most 4; got 5"),
        ({"n": 5, "d": 3, "temperature": 0}, "temperature must be finite and above 0; got 0"),
        ({"n": 5, "d": 3, "starts": 0}, "starts must be at least 1; got 0"),
    ],
)
def test_bad_values(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        open_case(**arguments)


def test_a_dimension_must_be_an_integer() -> None:
    with pytest.raises(TypeError, match=r"^d must be an integer; got float$"):
        open_case(5, 3.0)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "open_case.py"))


@pytest.fixture(scope="module")
def stored(example: dict[str, Any]) -> list[OpenCase]:
    return [example["from_json"](case) for case in json.loads(STORED.read_text())]


def test_the_stored_coordinates_have_the_losses_of_the_docs(stored: list[OpenCase]) -> None:
    """Each number of the table can be checked without a search: the points are in the repository."""
    for case in stored:
        full = case.full
        assert float(contrastive_loss(full.u, full.v)) == pytest.approx(full.loss, abs=1e-11)
        for agreement in case.batches:
            found, size = agreement.found, agreement.found.batch_size
            lowest = float(minibatch_loss(found.u, found.v, "all", batch_size=size))
            other = float(minibatch_loss(full.u, full.v, "all", batch_size=size))
            assert lowest == pytest.approx(found.loss, abs=1e-11)
            assert other - lowest == pytest.approx(agreement.excess_of_full, abs=1e-11)
            back = float(contrastive_loss(found.u, found.v)) - full.loss
            assert back == pytest.approx(agreement.excess_of_batches, abs=1e-11)


def test_no_stored_minimum_is_beaten_by_another_of_its_cell(stored: list[OpenCase]) -> None:
    for case in stored:
        assert case.full.loss <= case.symmetric_loss + 1e-10
        for agreement in case.batches:
            assert min(agreement.excess_of_full, agreement.excess_of_batches) > -1e-12


def test_the_page_holds_the_table_of_the_stored_results(stored: list[OpenCase], example: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "open-case.md").read_text(encoding="utf-8")
    for line in example["markdown"](stored).splitlines():
        assert line in page


def test_the_page_says_what_is_stored(stored: list[OpenCase]) -> None:
    page = " ".join((ROOT / "docs" / "open-case.md").read_text(encoding="utf-8").split())
    differ = [case for case in stored if not all(agreement.agrees for agreement in case.batches)]
    assert f"in {len(differ)} of the {len(stored)} cells below" in page
    (pairs,) = (a for case in stored if (case.n, case.d) == (10, 2) for a in case.batches if a.found.batch_size == 2)
    lowest = pairs.found.loss
    assert (
        f"{lowest + pairs.excess_of_full:.8f} at the regular 10-gon and {lowest:.8f} at a pentagon taken twice" in page
    )
    assert all(case.full.symmetric for case in stored)
    assert all(agreement.found.symmetric for case in stored for agreement in case.batches)


def test_the_example_searches_stores_and_reads(
    tmp_path: Path, example: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data, table = tmp_path / "cases.json", tmp_path / "table.md"
    example["main"](["--n", "4", "--d", "2", "--starts", "2", "--json", str(data)])
    example["main"](["--read", str(data), "--markdown", str(table)])
    assert "square" in table.read_text()
    assert "1.25304675" in table.read_text()
    assert "square" in capsys.readouterr().out


def test_the_example_draws(tmp_path: Path, example: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    figure = tmp_path / "figure.svg"
    example["main"](["--read", str(STORED), "--figure", str(figure)])
    text = figure.read_text()
    for name in ("8-gon", "2-fold square", "10-gon", "2-fold pentagon", "square antiprism", "cube"):
        assert name in text


@pytest.mark.slow
def test_another_seed_finds_the_stored_minima(stored: list[OpenCase]) -> None:
    for case in stored:
        if case.n > 7:
            continue
        again = open_case(case.n, case.d, starts=20, seed=1)
        assert again.full.loss == pytest.approx(case.full.loss, abs=1e-9)
        for ours, theirs in zip(again.batches, case.batches, strict=True):
            assert ours.found.loss == pytest.approx(theirs.found.loss, abs=1e-9)
