"""How good embeddings are: retrieval of the other half of a pair."""

from ._corrupt import CORRUPTIONS as CORRUPTIONS
from ._corrupt import corrupt as corrupt
from ._retrieval import Ranks as Ranks
from ._retrieval import Retrieval as Retrieval
from ._retrieval import retrieval as retrieval
