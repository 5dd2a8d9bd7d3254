"""How good embeddings are: retrieval of the other half of a pair, clean and corrupted; classes, where they are known.

Nothing here knows how embeddings are made: what needs them takes a function that makes them.
"""

from ._health import Health as Health
from ._health import health as health
from ._labels import Probe as Probe
from ._labels import knn_accuracy as knn_accuracy
from ._labels import linear_probe as linear_probe
from ._retrieval import Ranks as Ranks
from ._retrieval import Retrieval as Retrieval
from ._retrieval import retrieval as retrieval
from ._views import Draws as Draws
from ._views import corrupted_retrieval as corrupted_retrieval
from ._views import grouped_retrieval as grouped_retrieval
from ._views import made_corruptions as made_corruptions
from ._views import view_retrieval as view_retrieval
from .corruptions import CORRUPTIONS as CORRUPTIONS
from .corruptions import corrupt as corrupt

__all__ = [
    "CORRUPTIONS",
    "Draws",
    "Health",
    "Probe",
    "Ranks",
    "Retrieval",
    "corrupt",
    "corrupted_retrieval",
    "grouped_retrieval",
    "health",
    "knn_accuracy",
    "linear_probe",
    "made_corruptions",
    "retrieval",
    "view_retrieval",
]
