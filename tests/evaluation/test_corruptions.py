import colorsys
import io
import math

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from scipy import ndimage

from batchcut.evaluation.corruptions import CORRUPTIONS, _blur, _corrupt, _digital, _noise, _weather, corrupt

Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]


def pictures(count: int = 6, channels: int = 3, side: int = 32, *, seed: int = 0) -> Bytes:
    """Smooth random images, so that blur and noise show."""
    rng = np.random.default_rng(seed)
    smooth = ndimage.gaussian_filter(rng.standard_normal((count, channels, side, side)), (0, 0, 2, 2))
    return np.asarray(np.clip(128 + 250 * smooth, 0, 255), np.uint8)


def floats(count: int = 3, channels: int = 3, side: int = 32) -> Doubles:
    return pictures(count, channels, side).transpose(0, 2, 3, 1) / 255


def generators(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, number]) for number in range(count)]


def change(name: str, severity: int, count: int = 24) -> float:
    """Root mean square change of images by a corruption."""
    images = pictures(count)
    moved = corrupt(images, name, severity=severity).astype(float) - images
    return float(np.sqrt(np.square(moved).mean()))


def test_there_are_nineteen_with_the_published_names() -> None:
    assert len(CORRUPTIONS) == 19
    assert list(CORRUPTIONS) == sorted(CORRUPTIONS)


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize(("channels", "side"), [(3, 32), (1, 8), (3, 17)])
def test_shape_type_and_what_it_is_a_function_of(name: str, channels: int, side: int) -> None:
    images = pictures(5, channels, side)
    kept = images.copy()
    found = corrupt(images, name, seed=3)
    assert found.shape == images.shape
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(images, kept)
    np.testing.assert_array_equal(found, corrupt(images, name, seed=3))
    np.testing.assert_array_equal(found[2:], corrupt(images[2:], name, seed=3, first=2))
    # A grey image has no colour to change, and 5 % of 8 pixels is none.
    if channels == 3 or name not in ("saturate", "zoom_blur"):
        assert not np.array_equal(found, images)


def test_parts_come_out_as_the_whole_does_beyond_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(7, side=8)
    whole = corrupt(images, "fog")
    monkeypatch.setattr(_corrupt, "_AT_ONCE", 3)
    np.testing.assert_array_equal(corrupt(images, "fog"), whole)


FIXED = {"brightness", "contrast", "defocus_blur", "gaussian_blur", "jpeg_compression", "pixelate", "saturate"}
RANDOM = sorted({*CORRUPTIONS} - FIXED - {"zoom_blur"})


@pytest.mark.parametrize("name", RANDOM)
def test_random_ones_change_with_the_seed(name: str) -> None:
    images = pictures(4)
    assert not np.array_equal(corrupt(images, name, seed=0), corrupt(images, name, seed=1))
    twins = np.repeat(images[:1], 2, axis=0)
    assert not np.array_equal(*corrupt(twins, name))


LEVELLED = sorted(
    {*CORRUPTIONS} - {"elastic_transform", "glass_blur", "saturate", "spatter", "frost", "snow", "motion_blur"}
)


@pytest.mark.parametrize("name", LEVELLED)
def test_a_higher_severity_changes_more(name: str) -> None:
    changes = [change(name, severity) for severity in range(1, 6)]
    assert changes == sorted(changes)
    assert changes[4] > 1.2 * changes[0]


@pytest.mark.parametrize("name", sorted({*CORRUPTIONS} - set(LEVELLED)))
def test_severities_differ(name: str) -> None:
    assert len({round(change(name, severity), 6) for severity in range(1, 6)}) == 5


GRAY = np.full((200, 32, 32, 3), 0.5)


@pytest.mark.parametrize(
    ("noise", "constant", "deviation"),
    [
        (_noise.gaussian_noise, 0.04, 0.04),
        (_noise.speckle_noise, 0.06, 0.03),
        (_noise.shot_noise, 500, math.sqrt(0.5 / 500)),
    ],
)
def test_noise_has_the_deviation_of_its_constant(noise: "object", constant: float, deviation: float) -> None:
    noisy = noise(GRAY, constant, generators(200))  # type: ignore[operator]
    assert noisy.mean() == pytest.approx(0.5, abs=1e-3)
    assert noisy.std() == pytest.approx(deviation, rel=0.01)


def test_impulses_are_as_many_as_the_amount_says() -> None:
    noisy = _noise.impulse_noise(GRAY, 0.01, generators(200))
    assert (noisy == 0).mean() == pytest.approx(0.005, rel=0.05)
    assert (noisy == 1).mean() == pytest.approx(0.005, rel=0.05)
    assert ((noisy == 0) | (noisy == 0.5) | (noisy == 1)).all()


def test_brightness_and_saturation_against_the_way_through_hsv() -> None:
    images = np.random.default_rng(0).random((2, 6, 6, 3))
    images[0, 0] = 0.25  # grey pixels
    images[0, 1] = 0  # black ones
    for added in (0.05, 0.3):
        slow = np.array([brighter(pixel, added) for pixel in images.reshape(-1, 3)]).reshape(images.shape)
        np.testing.assert_allclose(_digital.brightness(images, added, []), slow, atol=1e-12)
    for constants in ((0.3, 0.0), (2.5, 0.2)):
        slow = np.array([saturated(pixel, *constants) for pixel in images.reshape(-1, 3)]).reshape(images.shape)
        np.testing.assert_allclose(_digital.saturate(images, constants, []), slow, atol=1e-12)


def brighter(pixel: Doubles, added: float) -> tuple[float, float, float]:
    hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
    return colorsys.hsv_to_rgb(hue, saturation, min(1, value + added))


def saturated(pixel: Doubles, factor: float, offset: float) -> tuple[float, float, float]:
    hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
    return colorsys.hsv_to_rgb(hue, min(1, max(0, saturation * factor + offset)), value)


def test_contrast_keeps_means_and_scales_deviations() -> None:
    images = floats()
    found = _digital.contrast(images, 0.75, [])
    np.testing.assert_allclose(found.mean(axis=(1, 2)), images.mean(axis=(1, 2)))
    np.testing.assert_allclose(found.std(axis=(1, 2)), 0.75 * images.std(axis=(1, 2)))


def test_jpeg_and_pixelate_are_what_pillow_does() -> None:
    pixels = pictures(2)
    for name in ("jpeg_compression", "pixelate"):
        for image, result in zip(pixels, corrupt(pixels, name), strict=True):
            picture = Image.fromarray(image.transpose(1, 2, 0))
            if name == "pixelate":
                wanted = picture.resize((30, 30), Image.Resampling.BOX).resize((32, 32), Image.Resampling.BOX)
            else:
                written = io.BytesIO()
                picture.save(written, "JPEG", quality=80)
                wanted = Image.open(written)
            np.testing.assert_array_equal(result, np.asarray(wanted).transpose(2, 0, 1))


@pytest.mark.parametrize("factor", [1.01, 1.05, 1.1, 1.25, 1.75, 2.25])
def test_zoom_against_scipy(factor: float) -> None:
    image = floats(1)[0]
    kept = math.ceil(32 / factor)
    top = (32 - kept) // 2
    grown = ndimage.zoom(image[top : top + kept, top : top + kept], (factor, factor, 1), order=1)
    start = (len(grown) - 32) // 2
    wanted = grown[start : start + 32, start : start + 32]
    np.testing.assert_allclose(_blur.clipped_zoom(image[None], factor)[0], wanted, atol=1e-12)


def test_zoom_blur_is_a_mean() -> None:
    images = floats(2)
    wanted = (2 * images + _blur.clipped_zoom(images, 1.05)) / 3
    np.testing.assert_allclose(_blur.zoom_blur(images, (1.0, 1.05), []), wanted, atol=1e-12)


def test_defocus_against_the_sum_written_out() -> None:
    radius, alias = 1.5, 0.1
    inside = [(y, x) for y in range(-8, 9) for x in range(-8, 9) if y * y + x * x <= radius**2]
    assert len(inside) == 9
    image = floats(1, side=8)[0]
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="reflect")
    slow = np.mean([padded[2 + y : 10 + y, 2 + x : 10 + x] for y, x in inside], axis=0)
    found = _blur.defocus_blur(image[None], (radius, alias), [])[0]
    np.testing.assert_allclose(found, slow, atol=1e-9)  # a softening of 0.1 is none
    soft = _blur.disk_kernel(0.3, 0.4)
    side = math.exp(-1 / (2 * 0.4**2))
    assert soft[8, 9] / soft[8, 8] == pytest.approx(side)
    assert soft.sum() == pytest.approx(1)


def test_trail_against_the_sum_written_out() -> None:
    image, radius, sigma, angle = floats(1, side=9)[0], 3, 2.0, 30.0
    weights = [math.exp(-(i * i) / (2 * sigma**2)) for i in range(7)]
    slow = np.zeros_like(image)
    for y in range(9):
        for x in range(9):
            for i, weight in enumerate(weights):
                row = min(8, max(0, y + math.ceil(i * math.sin(math.radians(angle)) - 0.5)))
                column = min(8, max(0, x + math.ceil(i * math.cos(math.radians(angle)) - 0.5)))
                slow[y, x] += weight / sum(weights) * image[row, column]
    np.testing.assert_allclose(_blur.trail(image[None], radius, sigma, np.array([angle]))[0], slow, atol=1e-12)


def test_glass_moves_pixels_by_one() -> None:
    places = np.arange(32 * 32).reshape(1, 32, 32, 1) / (32 * 32)
    found = _blur.glass_blur(np.repeat(places, 3, axis=3), (1e-3, 1, 1), generators(1))[0, ..., 0]
    slow = np.floor(places[0, ..., 0] * 255 + 1e-6) / 255
    for y in range(32):
        for x in range(32):
            if y < 2 or x < 2:
                assert found[y, x] == pytest.approx(slow[y, x])
            else:
                near = slow[y - 1 : y + 1, x - 1 : x + 1]
                assert np.abs(near - found[y, x]).min() < 1e-9
    assert (found != slow).sum() > 300


def test_plasma_fills_its_range_and_gets_rougher() -> None:
    maps = {decay: _weather.plasma(32, 32, decay, generators(8)) for decay in (3.0, 1.75)}
    for heights in maps.values():
        assert heights.shape == (8, 32, 32)
        assert heights.min(axis=(1, 2)).max() == 0
        assert heights.max(axis=(1, 2)).min() == 1
    smooth, rough = (np.abs(np.diff(maps[decay], axis=2)).mean() for decay in (3.0, 1.75))
    assert rough > 1.3 * smooth


def test_fog_is_a_mixture_with_the_fractal() -> None:
    images = floats(2)
    layer = _weather.plasma(32, 32, 3, generators(2))[..., None]
    for image, veil, found in zip(images, layer, _weather.fog(images, (0.2, 3), generators(2)), strict=True):
        np.testing.assert_allclose(found, (image + 0.2 * veil) * image.max() / (image.max() + 0.2))


def test_frost_adds_light_by_its_weight() -> None:
    dark = np.zeros((4, 32, 32, 3))
    once, twice = (_weather.frost(dark, (1, weight), generators(4)) for weight in (0.2, 0.4))
    np.testing.assert_allclose(twice, 2 * once)
    assert 0.2 * 0.2 < once.mean() < 0.2 * 0.6
    assert once.max() <= 0.2
    np.testing.assert_allclose(_weather.frost(dark + 0.5, (0.75, 0.2), generators(4)) - once, 0.375)


def test_snow_falls_downwards_and_whitens() -> None:
    images = np.full((20, 32, 32, 3), 0.2)
    found = _weather.snow(images, (0.1, 0.2, 1, 0.6, 8, 3, 0.95), generators(20))
    base = 0.95 * 0.2 + 0.05 * (0.2 * 1.5 + 0.5)
    assert found.min() == pytest.approx(base)
    across, down = (np.abs(np.diff(found, axis=axis)).mean() for axis in (2, 1))
    assert across > 1.3 * down  # streaks are longer than they are wide


def test_spatter_is_water_or_mud() -> None:
    images = np.full((10, 32, 32, 3), 0.5)
    water = _weather.spatter(images, (0.62, 0.1, 0.7, 0.7, 0.5, 0), generators(10)) - images
    wet = water[water.sum(axis=3) > 0]
    assert len(wet) > 0
    np.testing.assert_allclose(wet[:, 0] / wet[:, 1], 175 / 238)
    assert water.max() == pytest.approx(0.5 * 238 / 255)
    mud = _weather.spatter(images, (0.65, 0.1, 0.7, 0.69, 0.6, 1), generators(10))
    muddy = mud[(mud != 0.5).any(axis=3)]
    share = (0.5 - muddy) / (0.5 - np.array([63, 42, 20]) / 255)
    np.testing.assert_allclose(share, np.repeat(share[:, :1], 3, axis=1))
    assert share.min() >= 0.8 - 1e-9


def test_edges_are_thin_and_where_the_step_is() -> None:
    gray = np.zeros((16, 16))
    gray[:, 8:] = 200
    found = _weather.edges(gray)
    assert found[:, 7:9].any(axis=1).all()
    assert found.sum(axis=1).max() == 1
    assert not _weather.edges(gray / 20).any()  # 4 · 10 is below the lower threshold


def test_elastic_fixes_three_points() -> None:
    points = _digital.affine_points(32, 32)
    assert points.tolist() == [[26, 26], [6, 26], [6, 6]]
    images = floats(2)
    np.testing.assert_allclose(_digital.elastic_transform(images, (0, 0, 0), generators(2)), images, atol=1e-9)
    moved = _digital.elastic_transform(images, (0, 0, 0.08), generators(2))
    rng = generators(2)[0]
    target = points + rng.uniform(-0.08 * 32, 0.08 * 32, (3, 2))
    for point, place in zip(points, target, strict=True):
        row, column = (round(value) for value in place)
        if 1 <= row < 31 and 1 <= column < 31:
            near = images[0][int(point[0]) - 1 : int(point[0]) + 2, int(point[1]) - 1 : int(point[1]) + 2]
            assert np.abs(near - moved[0, row, column]).max(axis=2).min() < 0.1


def test_whole_bytes_stay_as_they_are() -> None:
    everything = np.arange(256) / 255
    assert _corrupt.to_bytes(everything).tolist() == list(range(256))
    assert _corrupt.to_bytes(np.array([-1, 2, 0.9999])).tolist() == [0, 255, 254]


@pytest.mark.parametrize(
    ("pixels", "settings", "error", "text"),
    [
        (pictures(1), {"corruption": "rain"}, ValueError, "corruption must be one of brightness, .*; got 'rain'"),
        (pictures(1), {"severity": 0}, ValueError, "severity must be at least 1; got 0"),
        (pictures(1), {"severity": 6}, ValueError, "severity must be at most 5; got 6"),
        (pictures(1), {"seed": -1}, ValueError, "seed must be at least 0; got -1"),
        (pictures(1) / 255, {}, TypeError, "pixels must hold uint8; got float64"),
        (pictures(1)[0], {}, ValueError, r"pixels must have shape \(N, C, H, W\) with C = 1 or 3; got \(3, 32, 32\)"),
    ],
)
def test_bad_input(pixels: Bytes, settings: dict[str, int], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        corrupt(pixels, **({"corruption": "fog"} | settings))  # type: ignore[arg-type]
