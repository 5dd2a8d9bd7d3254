"""What limits planned batches on images: SimCLR on CIFAR-100, one thing changed at a time.

`images.py --cifar ROOT` trains the recipe `cifar100-small` (ROOT holds `cifar-100-python`) by shuffled and by planned
batches and by the variants below, and scores retrieval on training images that the recipe does not use: nothing here is
chosen by the test part. "hardness" and "effective" are of the plans of a run, by the embeddings they were made from;
"agreement" is the cosine of new and old embeddings while training by plans. With `--output` all is stored as JSON after
each run, and runs that are there already are not made again.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.image_variants import (
    Explored,
    FreshNegatives,
    FromAverage,
    FromFeatures,
    FromWholeImages,
    TrainedNegatives,
    as_it_is,
    by_groups,
    by_running_statistics,
)
from benchmarks.loops.runs import AT_THE_END, Results, Row, compared, config_by, digest, measured_run, percent

from batchcut.data import Split, load
from batchcut.sampling import momentum_for
from batchcut.training import Config, _batches, _run, _trainer
from batchcut.training._model import build_model

RECIPE = "cifar100-small"
SELECTOR = "selection.selector."
SHUFFLED, PLANNED = {SELECTOR + "method": "shuffle"}, {SELECTOR + "method": "cut"}
VALIDATION = 2000


@dataclass(frozen=True)
class Variant:
    """What is changed of the recipe.

    Attributes:
        base: the variant that it is compared with.
        settings: as the command line has them.
        trainer: the loop.
        convert: what is done to a new model.
        momentum: of the bank; None: as `batchcut train` has it, where views are averaged over epochs.
    """

    base: str
    settings: dict[str, str]
    trainer: Callable[..., Explored] = Explored
    convert: Callable[[nn.Module], None] = as_it_is
    momentum: float | None = None


def _with(settings: dict[str, str], **more: str) -> dict[str, str]:
    return settings | {name.replace("__", "."): value for name, value in more.items()}


ALONE = _with(PLANNED, selection__background="false")
LAST = "Cut, last views alone"


def _of_last(settings: dict[str, str] = PLANNED, **changed: Any) -> Variant:
    """A change of plans by the last views, which are compared with plans without that change."""
    return Variant(LAST, settings, momentum=0.0, **changed)


VARIANTS = {
    "shuffled": Variant("shuffled", SHUFFLED),
    "Cut": Variant("shuffled", PLANNED),
    LAST: Variant("shuffled", PLANNED, momentum=0.0),
    "Cut, no background": Variant("Cut", ALONE),
    "Cut, no background, momentum 0.75": Variant("Cut, no background", ALONE, momentum=0.75),
    "Cut, no background, momentum 0.9": Variant("Cut, no background", ALONE, momentum=0.9),
    "Cut, fresh pass": _of_last(_with(PLANNED, selection__planned_from="pass")),
    "Cut, fresh pass over whole images": _of_last(
        _with(PLANNED, selection__planned_from="pass"), trainer=FromWholeImages
    ),
    "Cut, weights averaged": _of_last(trainer=FromAverage),
    "Cut, plan at τ = 0.05": _of_last(_with(PLANNED, **{SELECTOR + "temperature": "0.05"})),
    "Cut, plan at τ = 0.2": _of_last(_with(PLANNED, **{SELECTOR + "temperature": "0.2"})),
    "Cut, features before the head": _of_last(ALONE, trainer=FromFeatures),
    "Cut, groups of 16": _of_last(by_groups(16, planned=1.0)),
    "Cut, groups of 8": _of_last(by_groups(8, planned=1.0)),
    "Cut, half a batch random": _of_last(by_groups(16, planned=0.5)),
    "Cut, 96 fresh, 15 % of the mass": _of_last(trainer=FreshNegatives.of(count=96, share=0.15)),
    "shuffled, 96 fresh negatives": Variant("shuffled", SHUFFLED, FreshNegatives.of(count=96)),
    "shuffled, 96 negatives with gradient": Variant("shuffled", SHUFFLED, TrainedNegatives.of(count=96)),
    "Cut, running statistics": _of_last(convert=by_running_statistics),
    "shuffled, width 32": Variant("shuffled, width 32", _with(SHUFFLED, model__width="32")),
    "Cut, width 32": Variant("shuffled, width 32", _with(PLANNED, model__width="32")),
}


def config_for(variant: str, root: Path, seed: int, epochs: int) -> Config:
    """The recipe with what a variant changes; scored and saved at the end alone."""
    overrides = VARIANTS[variant].settings | {
        "data.root": json.dumps(str(root)),
        "data.test": str(VALIDATION),
        "seed": str(seed),
        "epochs": str(epochs),
    }
    return config_by(RECIPE, overrides | AT_THE_END)


def without_test(split: Split, train: int) -> Split:
    """The first so many training images, and others of the training part instead of the test."""
    return Split(split.train.take(slice(0, train)), split.train.take(slice(train, train + VALIDATION)))


@contextmanager
def varied(variant: Variant) -> Iterator[None]:
    """Lets `train` build the model, keep the bank and run the loop of a variant."""

    def converted(*arguments: Any, **named: Any) -> nn.Module:
        model = build_model(*arguments, **named)
        variant.convert(model)
        return model

    def momentum(*, average_views: bool) -> float:
        return momentum_for(average_views=average_views) if variant.momentum is None else variant.momentum

    with (
        mock.patch.object(_trainer, "build_model", converted),
        mock.patch.object(_batches, "momentum_for", momentum),
        mock.patch.object(_run, "Trainer", variant.trainer),
    ):
        yield


def run(variant: str, split: Split, config: Config) -> Row:
    """One run: its score, and what its plans and its bank were like."""
    with varied(VARIANTS[variant]):
        found = measured_run(config, split=without_test(split, config.data.train or len(split.train) - VALIDATION))
    about = {"variant": variant, "seed": config.seed, "epochs": config.epochs, "config": digest(config)}
    return about | {name: found[name] for name in ("top1", "hardness", "effective_size", "background")}


def summary(rows: Sequence[Row]) -> list[Row]:
    """Of each variant and number of epochs: top-1, its gain over shuffled batches and over its base, by seed."""
    lines = []
    for epochs in sorted({row["epochs"] for row in rows}):
        scores: dict[str, dict[int, float]] = {
            name: {row["seed"]: row["top1"] for row in rows if (row["variant"], row["epochs"]) == (name, epochs)}
            for name in VARIANTS
        }
        for name, own in scores.items():
            base = scores[VARIANTS[name].base]
            gains = [own[seed] - base[seed] for seed in sorted(own.keys() & base.keys())]
            same = [row for row in rows if (row["variant"], row["epochs"]) == (name, epochs)]
            if own:
                about = {"variant": name, "base": VARIANTS[name].base, "epochs": epochs}
                lines.append(about | compared(own, gains, []) | _plans(same))
    return lines


def _plans(rows: Sequence[Row]) -> Row:
    """Means over runs of what their plans and their bank were like; None where there was no plan."""
    watched = [row["background"] for row in rows if row["background"] is not None]
    sizes = [row["effective_size"] for row in rows if row["effective_size"] is not None]
    return {
        "hardness": statistics.fmean(row["hardness"] for row in rows),
        "effective_size": statistics.fmean(sizes) if sizes else None,
        "agreement": statistics.fmean(facts["agreement"] for facts in watched) if watched else None,
        "drawn": statistics.fmean(facts["drawn"] / facts["asked"] for facts in watched) if watched else None,
    }


def table(lines: Sequence[Row]) -> str:
    """The summary as text."""
    names = ("seeds", "top-1", "gain", "spread", "hardness", "size", "agreement")
    text = [f"{'variant':38}{'epochs':>7}" + "".join(f"{name:>10}" for name in names)]
    for line in lines:
        scores = "".join(f"{percent(line[name]):>10}" for name in ("top1", "gain", "gain_spread"))
        plans = "".join(
            f"{'-' if line[name] is None else format(line[name], '.2f'):>10}"
            for name in ("hardness", "effective_size", "agreement")
        )
        text.append(f"{line['variant']:38}{line['epochs']:7}{line['seeds']:10}{scores}{plans}")
    return "\n".join(text)


def main() -> None:
    """Runs what is missing and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", type=Path, required=True, help="folder that holds cifar-100-python")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=2, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(options.output, facts=facts_of, line=_line)
    split = load("cifar100", root=options.cifar)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for variant in options.variants:
            config = config_for(variant, options.cifar, seed, options.epochs)
            results.add({"variant": variant, "config": digest(config)}, run, variant, split, config)
    print(table(summary(results.runs)))


def facts_of(runs: Sequence[Row]) -> Row:
    """All that is stored."""
    return {"summary": summary(runs), "runs": runs}


def _line(row: Row) -> str:
    return f"{row['variant']}, seed {row['seed']}: {row['top1']:.2%}"


if __name__ == "__main__":
    main()
