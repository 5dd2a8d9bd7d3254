"""The bank: what training has computed of each sample, in memory or in a file, whole or in shards."""

from ._bank import EmbeddingBank as EmbeddingBank
from ._bank import momentum_for as momentum_for
from ._file import NEVER as NEVER
from ._file import bank_rows as bank_rows
from ._file import is_bank as is_bank
from ._rows import mean_of_views as mean_of_views
from ._rows import rows_of as rows_of
from ._sharded import ShardedBank as ShardedBank
