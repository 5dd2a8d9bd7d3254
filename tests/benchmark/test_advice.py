"""The advice of `batchcut select` beside the gains."""

import math

import pytest
from benchmarks import advice, tables
from benchmarks.loops.rivals import train_by

from batchcut.data import Split
from batchcut.training import Config


def test_advice_is_asked_for_where_all_is_shuffled(split: Split, config: Config) -> None:
    planned = advice.run(split, config, shuffled_epochs=1, sizes=(8, 64))
    shuffled = advice.run(split, config, shuffled_epochs=config.epochs, sizes=(8, 64))
    assert (planned["shuffled_epochs"], planned["advice"]) == (1, [])
    assert [one["batch_size"] for one in shuffled["advice"]] == [8, 64]
    assert all(one["pays"] == (one["times_shuffled"] >= 1.5) for one in shuffled["advice"])
    assert shuffled["top1"] == pytest.approx(train_by("shuffled", split, config).top1)


def test_advice_stands_beside_gains() -> None:
    asked = [{"batch_size": 32, "times_shuffled": times, "pays": times > 2.5} for times in (2.0, 3.0, 4.0)]
    rows = [
        {"data": "pairs", "seed": seed, "shuffled_epochs": count, "top1": top1 + 0.001 * seed * count, "advice": []}
        for seed in range(3)
        for count, top1 in ((1, 0.6), (2, 0.55), (3, 0.5))
    ]
    for row, one in zip((row for row in rows if row["shuffled_epochs"] == 3), asked, strict=True):
        row["advice"] = [one]
    gains = [{"data": "pairs", "batch_size": 32, "method": "cut", "gain": 0.04, "gain_spread": 0.02, "seeds": 4}]
    (line,) = advice.advice_lines(rows, gains)
    assert line == {
        "data": "pairs", "batch_size": 32, "gain": 0.04, "error": 0.01, "pays": True, "times_shuffled": 3.0
    }  # fmt: skip
    first, second = advice.waiting_lines(rows)
    assert (first["shuffled_epochs"], first["seeds"], second["shuffled_epochs"]) == (1, 3, 2)
    assert first["gain"] == pytest.approx(0.1 - 0.002)
    assert first["error"] == pytest.approx(0.002 / math.sqrt(3))
    facts = {"summary": [line], "waiting": [first, second]}
    assert advice.table(facts).splitlines()[1].split() == ["pairs", "32", "3.0", "yes", "4.00", "1.00"]
    images = {"data": "images, seeds from 40", "objective": "simclr", "method": "Cut"}
    runs = [images | {"hardness": 18.0}, images | {"hardness": 20.0}]
    training = {"summary": [images | {"gain": 0.03}], "runs": runs}
    tuned = {"data": "functions", "pairs": 40, "batch": 32, "epochs": 3, "rate": 1e-4, "equal": "steps"}
    finetune = [tuned | {"method": "not trained", "times_shuffled": 4.25, "top1": {"gain": -0.1}}]
    planned = tuned | {"method": "planned"}
    finetune += [planned | {"top1": {"gain": gain}, "pairs": n} for gain, n in ((0.02, 20), (0.03, 40))]
    assert tables.advice_table(facts, training, {"summary": finetune}).splitlines()[2:] == [
        "| pairs | 3.0 times, +4.0 |",
        "| functions, MiniLM as it comes | 4.2 times, +3.0 |",
        "| images, while they are trained on | 19.0 times, +3.0 |",
    ]
    assert tables.waiting_table(facts).splitlines()[2:] == ["| pairs | +9.8 ± 0.1 | +4.9 ± 0.1 |"]
