from batchcut._progress import part_of, silent


def test_a_part_goes_from_its_first_to_its_last_share() -> None:
    seen: list[float] = []
    part = part_of(part_of(seen.append, 0.5, 1.0), 0.0, 0.5)
    for share in (0.0, 0.5, 1.0):
        part(share)
    assert seen == [0.5, 0.625, 0.75]


def test_the_end_of_the_last_part_is_the_end() -> None:
    seen: list[float] = []
    for parts in range(1, 50):
        part_of(seen.append, (parts - 1) / parts, 1.0)(1.0)
    assert set(seen) == {1.0}


def test_silent_takes_anything() -> None:
    assert [silent(), silent(0.5, "name")] == [None, None]  # type: ignore[func-returns-value]
