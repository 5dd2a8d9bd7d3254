"""Loads with this package what Numba would load when it first runs a compiled function.

It takes about half a second, which would fall into the first plan and so into the midst of a training.
"""

from numba.core.registry import cpu_target

cpu_target.target_context.refresh()
