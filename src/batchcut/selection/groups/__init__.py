"""Groups: samples that must not share a batch, and how they are kept apart."""

from ._apart import swaps_apart as swaps_apart
from ._groups import Groups as Groups
from ._groups import count_group_pairs as count_group_pairs
from ._groups import in_common as in_common
from ._groups import read_groups as read_groups
from ._groups import warn_of_large_groups as warn_of_large_groups
from ._parting import part_groups as part_groups
