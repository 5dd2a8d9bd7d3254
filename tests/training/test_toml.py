"""Settings as TOML."""

import tomllib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcut.selection import Ordered, Spectral
from batchcut.training import Config, DataSettings, ObjectiveSettings, SelectionSettings, config_of, to_toml


def test_what_is_written_is_complete_and_read_back_the_same() -> None:
    for selector in (Spectral(pool=3, variant="authors"), Ordered(k=4, q=2)):
        config = Config(seed=3, selection=SelectionSettings(selector=selector))
        assert config_of(tomllib.loads(to_toml(config)), source="text") == config


@given(st.text(min_size=1), st.floats(min_value=1e-6, max_value=1, exclude_min=True))
def test_any_text_and_number_survives(text: str, number: float) -> None:
    if "\ud800" <= max(text) <= "\udfff":
        return
    config = Config(data=DataSettings(name=f"folder:{text}"))
    tree = tomllib.loads(to_toml(config)) | {"objective": {"temperature": number}}
    assert config_of(tree, source="text").data.name == f"folder:{text}"
    again = config_of(tree, source="text")
    assert config_of(tomllib.loads(to_toml(again)), source="text") == again


def test_numbers_of_numpy_are_written_as_any_others() -> None:
    config = Config(seed=np.int64(3), objective=ObjectiveSettings(temperature=np.float64(0.05)))  # type: ignore[arg-type]
    assert config_of(tomllib.loads(to_toml(config)), source="text") == config
