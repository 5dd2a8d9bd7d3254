import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.losses._reference import pairs
from torch import Tensor

from batchcut.losses import SogCLR, sogclr_loss

NEW = float("nan")


def _means(u: Tensor, v: Tensor, temperature: float) -> list[list[float]]:
    """g of each view, by a loop: the mean of e^(cosine / temperature) over the views of other samples."""
    sides = [F.normalize(x.detach(), dim=1).tolist() for x in (u, v)]
    n = len(u)

    def mean(side: int, i: int) -> float:
        others = [other[j] for other in sides for j in range(n) if j != i]
        cosines = [sum(a * b for a, b in zip(sides[side][i], other, strict=True)) for other in others]
        return sum(math.exp(c / temperature) for c in cosines) / len(others)

    return [[mean(side, i) for i in range(n)] for side in range(2)]


def _decoupled_loss(u: Tensor, v: Tensor, temperature: float) -> Tensor:
    """The mini-batch loss with the positive left out of the denominator, both directions added, mean over samples."""
    n = len(u)
    z = F.normalize(torch.cat([u, v]), dim=1)
    total = z.new_zeros(())
    for i in range(2 * n):
        negatives = torch.stack([z[i] @ z[j] for j in range(2 * n) if j % n != i % n])
        total = total - z[i] @ z[(i + n) % (2 * n)] / temperature + (negatives / temperature).exp().sum().log()
    return total / (2 * n)


@pytest.mark.parametrize("temperature", [0.1, 0.7])
def test_gamma_1_has_the_gradient_of_the_decoupled_loss(temperature: float) -> None:
    u, v = pairs(5, 3, unit=False)
    old = torch.tensor([0.3, NEW, -2.0, 0.0, NEW], dtype=torch.float64)  # forgotten
    loss, _ = sogclr_loss(u, v, old, temperature=temperature, gamma=1.0)
    expected = torch.autograd.grad(temperature * _decoupled_loss(u, v, temperature), (u, v))
    torch.testing.assert_close(torch.autograd.grad(loss, (u, v)), expected, rtol=1e-10, atol=1e-12)


def test_value_by_hand() -> None:
    temperature, gamma = 0.4, 0.3
    u, v = pairs(4, 3)
    old = [0.5, 2.0, 1.0, 4.0]
    loss, new = sogclr_loss(u, v, torch.tensor(old, dtype=torch.float64).log(), temperature=temperature, gamma=gamma)

    g = _means(u, v, temperature)
    averages = [[(1 - gamma) * old[i] + gamma * g[side][i] for i in range(4)] for side in range(2)]
    z = torch.cat([u, v]).detach()
    expected = 0.0
    for i in range(8):
        negatives = [float(z[i] @ z[j]) for j in range(8) if j % 4 != i % 4]
        weighted = sum(math.exp(c / temperature) / averages[i // 4][i % 4] * c for c in negatives) / 6
        expected += (weighted - float(z[i] @ z[(i + 4) % 8])) / 8
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    assert new.exp().tolist() == pytest.approx([(averages[0][i] + averages[1][i]) / 2 for i in range(4)], rel=1e-12)


def test_the_average_scales_the_gradient_of_the_negatives() -> None:
    """With γ → 0 the denominator is the old average: that of log g, times g over the average."""
    u, v = pairs(4, 3)
    low, _ = sogclr_loss(u, v, torch.zeros(4, dtype=torch.float64), temperature=0.5, gamma=1e-14)
    high, _ = sogclr_loss(u, v, torch.full((4,), math.log(2.0), dtype=torch.float64), temperature=0.5, gamma=1e-14)
    positive = -F.cosine_similarity(u, v).sum() / 4
    a, b, p = (torch.autograd.grad(x, u, retain_graph=True)[0] for x in (low, high, positive))
    torch.testing.assert_close(a - p, 2 * (b - p), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.2, 0.9, 1.0])
def test_the_average_follows_the_recurrence(gamma: float) -> None:
    loss = SogCLR(7, temperature=0.3, gamma=gamma).double()
    average = [NEW] * 7
    for visit, index in enumerate([[0, 3, 5], [3, 4, 0], [6, 5, 3], [0, 1, 3]]):  # batches of seen and new samples
        u, v = pairs(3, 4, seed=visit)
        loss(torch.tensor(index), u, v)
        g = _means(u, v, 0.3)
        for place, sample in enumerate(index):
            mean = (g[0][place] + g[1][place]) / 2
            seen = not math.isnan(average[sample])
            average[sample] = (1 - gamma) * average[sample] + gamma * mean if seen else mean
    assert loss.log_average.exp().tolist() == pytest.approx(average, rel=1e-12, nan_ok=True)


def test_a_first_visit_is_handled_per_sample() -> None:
    """A new sample beside a seen one: its loss is the one that it would have at γ = 1, the other's is not."""
    u, v = pairs(3, 4)
    old = torch.tensor([NEW, 1.0, NEW], dtype=torch.float64)
    _, mixed = sogclr_loss(u, v, old, temperature=0.3, gamma=0.5)
    _, fresh = sogclr_loss(u, v, torch.full((3,), NEW, dtype=torch.float64), temperature=0.3, gamma=0.5)
    assert mixed[0] == fresh[0]
    assert mixed[2] == fresh[2]
    assert mixed[1].exp().item() == pytest.approx((math.e + fresh[1].exp().item()) / 2, rel=1e-12)


def test_a_first_visit_has_the_gradient_of_gamma_1() -> None:
    u, v = pairs(4, 3)
    first = SogCLR(4, temperature=0.3, gamma=0.2)(torch.arange(4), u, v)
    forgetful = SogCLR(4, temperature=0.3, gamma=1.0)(torch.arange(4), u, v)
    torch.testing.assert_close(torch.autograd.grad(first, (u, v)), torch.autograd.grad(forgetful, (u, v)))


def test_state_dict_round_trip() -> None:
    saved, restored = SogCLR(5), SogCLR(5)
    saved(torch.tensor([4, 1]), *pairs(2, 3, dtype=torch.float32))
    assert set(saved.state_dict()) == {"log_average"}
    restored.load_state_dict(saved.state_dict())
    u, v = pairs(3, 3, seed=1, dtype=torch.float32)
    index = torch.tensor([1, 4, 0])
    assert torch.equal(saved(index, u, v), restored(index, u, v))
    torch.testing.assert_close(saved.log_average, restored.log_average, rtol=0, atol=0, equal_nan=True)
    assert saved.log_average.isnan().tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("shape", [(4,), (5, 1), ()])
def test_averages_of_another_data_set_are_refused(shape: tuple[int, ...]) -> None:
    text = f"state_dict must hold averages of 5 samples, as this module does; got shape {shape}"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        SogCLR(5).load_state_dict({"log_average": torch.zeros(shape)})


def test_evaluation_uses_the_averages_and_leaves_them() -> None:
    loss = SogCLR(4, gamma=0.5)
    loss(torch.arange(4), *pairs(4, 3, dtype=torch.float32))
    before = loss.log_average.clone()
    u, v = pairs(4, 3, seed=1, dtype=torch.float32)
    evaluated = loss.eval()(torch.arange(4), u, v)
    assert torch.equal(loss.log_average, before)
    assert torch.equal(evaluated, loss.train()(torch.arange(4), u, v))
    assert not torch.equal(loss.log_average, before)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_low_temperature_stays_finite(side: float) -> None:
    """At 0.005 the mean is e^200 where all agree and e^-200 where they are opposite; float32 ends at e^88."""
    loss = SogCLR(2, temperature=0.005, gamma=0.9)
    index = torch.tensor([0, 1])
    u = torch.tensor([[1.0, 0.0], [side, 0.0]], requires_grad=True)
    for other in (u, u.detach().flip(0)):
        value = loss(index, u, other)
        (gradient,) = torch.autograd.grad(value, u)
        assert value.isfinite()
        assert gradient.isfinite().all()
    assert loss.log_average.isfinite().all()
    assert loss.log_average.abs().max() > 150


def test_half_precision_is_exact_from_the_input_on() -> None:
    u, v = (x.detach() for x in pairs(4, 8, dtype=torch.bfloat16))
    loss, _ = sogclr_loss(u, v, torch.full((4,), NEW), temperature=0.05, gamma=0.9)
    expected, _ = sogclr_loss(u.double(), v.double(), torch.full((4,), NEW).double(), temperature=0.05, gamma=0.9)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_defaults_are_those_of_the_paper() -> None:
    assert repr(SogCLR(10)) == "SogCLR(10, temperature=0.1, gamma=0.9)"


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"num_samples": 1}, ValueError, "num_samples must be at least 2; got 1"),
        ({"num_samples": 2.0}, TypeError, "num_samples must be an integer; got float"),
        ({"num_samples": 2, "gamma": 0}, ValueError, "gamma must be finite and above 0; got 0"),
        ({"num_samples": 2, "gamma": 1.5}, ValueError, "gamma must be above 0 and at most 1; got 1.5"),
    ],
)
def test_bad_settings(settings: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        SogCLR(**settings)


@pytest.mark.parametrize(
    ("index", "kind", "text"),
    [
        ([0, 1, 2, 3], TypeError, "index must be a torch tensor; got list"),
        (torch.ones(4), TypeError, "index must hold integers; got torch.float32"),
        (torch.ones(4, dtype=torch.bool), TypeError, "index must hold integers; got torch.bool"),
        (torch.ones(4, dtype=torch.cfloat), TypeError, "index must hold integers; got torch.complex64"),
        (torch.arange(3), ValueError, "index must have shape (4,), one for each row of u; got (3,)"),
        (torch.tensor([0, 1, 2, 9]), ValueError, "index must lie in 0 to 8; got 9"),
        (torch.tensor([0, 1, 2, -1]), ValueError, "index must lie in 0 to 8; got -1"),
        (torch.tensor([0, 1, 2, 1]), ValueError, "index must name each sample once; got a sample twice"),
    ],
)
def test_bad_indices(index: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        SogCLR(9)(index, torch.eye(4), torch.eye(4))


@pytest.mark.parametrize("length", [1e-20, 1e20])
def test_rows_of_any_length(length: float) -> None:
    u, v = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    index = torch.arange(4)
    torch.testing.assert_close(SogCLR(4)(index, u * length, v * length), SogCLR(4)(index, u, v))
