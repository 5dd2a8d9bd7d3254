"""All items, in the paper's order."""

from . import _bases, _concept, _sweep, _theory, _toy, _unproven
from ._item import Item

ITEMS: tuple[Item, ...] = (
    _sweep.ITEM,
    _concept.ITEM,
    _toy.ITEM,
    *_bases.ITEMS,
    _unproven.ITEM,
    _theory.ITEM,
)
