"""All items, in the paper's order: what each is called and costs, who shows it, and what computes it."""

from functools import partial

from ._item import Item, Run
from .figures import bases, concept, histograms, sweep, toy, unproven
from .tables import claims, retrieval


def _base(n: int, minutes: tuple[float, float]) -> Item:
    title = f"Free embeddings, N = {n}: where descent ends and how fast it gets there"
    # Revision 3, here and below: the search of small sets.
    return Item(f"fig:sim_theorem_base_N_{n}", title, minutes, bases, partial(bases.run, n), revision=3)


def _histogram(label: str, title: str, minutes: tuple[float, float], models: tuple[str, ...]) -> Item:
    run = partial(histograms.run, models)
    return Item(label, title, minutes, histograms, run, revision=3, needs_images=True, small=False)


def _retrieval(label: str, images: str, minutes: tuple[float, float], run: Run) -> Item:
    title = f"Retrieval after training, {images} images"
    return Item(label, title, minutes, retrieval, run, revision=3, needs_images=True, small=False)


ITEMS: tuple[Item, ...] = (
    Item(
        "fig:ful_mini_loss_compare",
        "Full-batch and mini-batch loss as one vector turns",
        (0.5, 0.15),
        sweep,
        sweep.run,
    ),
    Item(
        "fig:concept",
        "Optimal embeddings of four pairs: full batch, all batches, some batches",
        (0.1, 0.05),
        concept,
        concept.run,
    ),
    Item(
        "fig:toy_example",
        "The toy example: steps of OSGD, SGD and all-batches descent",
        (0.5, 0.05),
        toy,
        toy.run,
    ),
    _histogram(
        "fig:loss_histogram", "Losses of chosen and of random batches, model trained by SGD", (3, 0.2), ("SGD",)
    ),
    _base(8, (6, 0.4)),
    _base(4, (7, 0.3)),
    _base(16, (7, 0.6)),
    _retrieval("tab:performance_comparison_corrupted", "corrupted", (6, 0.3), retrieval.run_corrupted),
    _histogram(
        "fig:loss_histogram_appendix",
        "The same for models trained by SGD, OSGD and SC",
        (7, 0.4),
        histograms.MODELS,
    ),
    Item(
        "fig:sim_theorem_unproven",
        "Free embeddings, N = 8, where nothing is proved: d = 3 and d = 5",
        (1.5, 0.3),
        unproven,
        unproven.run,
    ),
    _retrieval("tab:performance_comparison_all", "clean", (30, 0.8), retrieval.run_clean),
    Item("theory", "Every claim of the paper, tried", (1.5, 0.4), claims, claims.run),
)
