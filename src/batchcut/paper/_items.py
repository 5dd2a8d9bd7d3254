"""All items, in the paper's order."""

from . import _bases, _concept, _histograms, _sweep, _tables, _theory, _toy, _unproven
from ._item import Item

ITEMS: tuple[Item, ...] = (
    _sweep.ITEM,
    _concept.ITEM,
    _toy.ITEM,
    _histograms.MAIN,
    *_bases.ITEMS,
    _tables.CORRUPTED,
    _histograms.APPENDIX,
    _unproven.ITEM,
    _tables.ALL,
    _theory.ITEM,
)
