"""Named settings that come with the package."""

from importlib import resources

from batchcut._errors import unknown_name

from ._toml import Tree, parse_toml

_SUFFIX = ".toml"


def recipe_names() -> list[str]:
    """The names of all recipes."""
    found = (entry.name for entry in resources.files(__package__).joinpath("recipes").iterdir())
    return sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))


def recipe(name: str) -> Tree:
    """The settings of a recipe, as TOML holds them; what it leaves out has its default."""
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names(), listed="`batchcut train --recipe list`")
    text = resources.files(__package__).joinpath("recipes", name + _SUFFIX).read_text(encoding="utf-8")
    return parse_toml(text, source=f"recipe {name}")
