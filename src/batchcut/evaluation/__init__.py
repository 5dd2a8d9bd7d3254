"""How good embeddings are: retrieval of the other half of a pair, clean and corrupted; classes, where they are known.

Nothing here knows how embeddings are made: what needs them takes a function that makes them.
"""

from ._corrupt import CORRUPTIONS as CORRUPTIONS
from ._corrupt import corrupt as corrupt
from ._health import Health as Health
from ._health import health as health
from ._labels import Probe as Probe
from ._labels import knn_accuracy as knn_accuracy
from ._labels import linear_probe as linear_probe
from ._retrieval import Ranks as Ranks
from ._retrieval import Retrieval as Retrieval
from ._retrieval import retrieval as retrieval
from ._tasks import Draws as Draws
from ._tasks import corrupted_retrieval as corrupted_retrieval
from ._tasks import grouped_retrieval as grouped_retrieval
from ._tasks import made_corruptions as made_corruptions
from ._tasks import view_retrieval as view_retrieval
