"""The constants of the search, by step, each with its reason; all were set by measuring (`benchmarks/selection.py`).

Those marked "compiled" are part of compiled kernels, and Numba looks at a kernel's own file to see whether it is out of
date: after a change of one of them, delete the `__pycache__` folders of `selection`.
"""

import numpy as np

# The whole search: what is searched as one pool, and when random pools are tried beside it.

SMALL_SET = 2048
"""Samples that are one pool whatever the size of their batches."""

IN_ONE_POOL = 40
"""Batches that are searched as one pool, with kicks."""

NAMELESS_SET = 8192
"""Samples up to which their numbers do not matter at all; of more, the mean loss hardly depends on them."""

MANY = 65_536
"""Samples beyond which time counts more than the last per cent of weight."""

TRIED, HOPED = 12, 1.4
"""Batches of a small random pool that shows, quickly, what swaps in such pools bring; and how many times as much as
that could be had in larger pools, with kicks."""

ROUNDING = 1e-6
"""The share by which weights differ that are summed in another order."""

ROUNDS = 4
"""Rounds, where further ones than the first pay."""

USUAL_BATCHES = (32, 64)
"""Sizes of batches; pools of larger ones have fewer, of smaller ones more, to have as many samples."""

LEAST_BATCHES = 4
"""Batches of any pool, however large they are."""

ORDER_SHARE, FOLLOW_SHARE, REFINE_SHARE, ROUND_SHARE = 0.15, 0.1, 0.4, 0.35 / 3
"""Of the work of four rounds, for the progress reported; the last for each round after the first."""

# Order: k-means cells, in a chain.

CELL_ROWS = 256
"""Samples at a time: few enough for the cache, whose products are looked at once more."""

MOST_CENTERS = 2048
"""Cells of a set that is not of many samples."""

CENTERS_OF_MANY_PER_PLACE, LEAST_CENTERS_OF_MANY, MOST_CENTERS_OF_MANY = 16, 1024, 4096
"""Cells of a set of many samples: so many for each place of a batch, within these bounds."""

LEAST_SAMPLES_PER_CENTER, SAMPLES_TIMES_PLACES = 24, 3072
"""Samples of a cell, and of a cell and a batch multiplied."""

LLOYD_STEPS = (8, 16, 16)
"""Samples per centre in each step of k-means, most in the last; the first is rough anyway."""

MOST_COMPARED = 4096
"""Centres, each with all others."""

# Follow: balanced k-means.

FOLLOWED = 80
"""Batches in a pool whose samples are dealt out together."""

FOLLOW_STEPS = 2
"""How often they are."""

CENTERS_NAMED = 8
"""A sample names so many centres; one that finds no room at any of them goes where room is left."""

# Refine: local search by swaps, in pools of batches that are alike.

REFINED = 84
"""Batches in a pool at most."""

POOL_STEEPNESS = 1.5
"""How much smaller a pool must be the less alike its batches are. Compiled."""

POOL_NEIGHBORS = 16
"""The most similar batches that a batch may be joined with."""

POOL_ROWS = 256
"""Batches at a time, each compared with all others."""

LARGE_POOL = 4
"""A pool with more than one in so many of all pairs within pools is weighed by all threads."""

TILE_ROWS, TILE_COLUMNS = 256, 1024
"""Samples of a pool whose scores are in the cache when they become weights."""

HALF_TEMPERATURE = 1.0
"""The highest at which weights are kept in half precision: beyond it they differ by so little that it would round it
off."""

CACHE_LINE = 16
"""float32 in a line of the cache."""

CLIMB_SWEEPS = 30
"""Hardly any pool needs more until nothing gains."""

LEAST_GAIN = np.float32(1e-4)
"""In units of weight, where a batch weighs 1 or more with a sample; less is rounding."""

WEIGHTS_AT_ONCE = 1 << 25
"""Weights that are read in some hundredths of a second, by the smallest batches in a quarter."""

KICKED = 8
"""One sample in so many is swapped by a kick."""

SAMPLES_EXPLORED = 4096
"""Small pools are so cheap that they are kicked more often, up to this many samples in all."""

# Seek: sweeps by estimated gains, among hundreds of batches.

RESTLESS, LARGE_BATCH = 0.12, 64
"""The share of samples that would rather be elsewhere from which on further rounds pay, for batches of at most this
size; in larger ones, a swap brings more."""

ASKED = 256
"""Samples that are asked whether they would."""

ASKED_ROWS = 1 << 12
"""Rows of batches, gathered at a time for the samples that are asked."""

SOUGHT, SOUGHT_OF_MANY = 320, 160
"""Batches in a pool; in sets of many samples, estimates of two pools fit in the cache."""

SEEK_SWEEPS = 3
"""Sweeps after which batches are put in a new order, so that others are neighbours."""

QUARTERS = 4
"""Of a pool, which are taken in pairs."""

PAIRINGS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
"""All pairs of quarters, two at a time, so that two threads can work side by side."""

PRODUCTS_AT_ONCE = 1 << 24
"""Of a sample's numbers with those of a batch, between two looks at whether to go on."""

OPTIMISM = np.float32(1.3)
"""What has not been weighed may be better than it seems,"""

GROWTH = np.float32(1.05)
"""and what was weighed a while ago may be better now."""

TARGETS = 4
"""How many batches a sample tries to get into, in one sweep. Compiled."""

PARTNERS = 8
"""How many samples of such a batch are weighed in full. Compiled."""

MOST_CHANGE = 20
"""Of the logarithm of an estimate. Compiled."""
