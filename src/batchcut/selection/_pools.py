"""Random pools of k batches: the dial of hardness, from one pool of k up to the whole set (`sec:real_exp_appendix`)."""

from batchcut._errors import check_integer, invalid


def check_pool(pool: object) -> None:
    """Refuses a pool that is neither None nor a number of batches that could be told apart."""
    if pool is not None:
        check_integer("pool", pool, at_least=2)


def pool_bounds(batch_count: int, pool: int | None, *, partial: bool) -> list[tuple[int, int]]:
    """Cuts K batches into runs of `pool`; None is one run of all. The last run may be smaller only if `partial`."""
    if pool is None:
        return [(0, batch_count)]
    if batch_count % pool and not partial:
        rule = f"divide the number of batches, {batch_count}, unless partial_pool=True"
        raise invalid("pool", rule, pool)
    return [(start, min(start + pool, batch_count)) for start in range(0, batch_count, pool)]
