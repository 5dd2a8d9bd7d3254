"""Data sets: images, and pairs of features, each in a part to learn from and one for the test."""

from ._arrays import BFloat16 as BFloat16
from ._arrays import names_of_sides as names_of_sides
from ._arrays import open_arrays as open_arrays
from ._arrays import open_npy as open_npy
from ._arrays import open_safetensors as open_safetensors
from ._arrays import rows_of_lists as rows_of_lists
from ._corrupted import CorruptedImages as CorruptedImages
from ._corrupted import load_corrupted as load_corrupted
from ._functions import FunctionSearch as FunctionSearch
from ._functions import FunctionTexts as FunctionTexts
from ._functions import load_functions as load_functions
from ._load import check_name as check_name
from ._load import check_there as check_there
from ._load import load as load
from ._load import places as places
from ._records import Images as Images
from ._records import Pairs as Pairs
from ._records import Split as Split
from ._text_features import TextFeatures as TextFeatures
from ._text_features import words_of as words_of

# `BFloat16`, `check_name`, `check_there`, `names_of_sides`, `open_arrays`, `open_npy`, `open_safetensors`, `places`,
# `rows_of_lists`, `TextFeatures` and `words_of` are for the other packages alone.
__all__ = [
    "CorruptedImages",
    "FunctionSearch",
    "FunctionTexts",
    "Images",
    "Pairs",
    "Split",
    "load",
    "load_corrupted",
    "load_functions",
]
