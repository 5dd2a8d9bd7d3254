"""Why a background helps planned batches and hurts shuffled ones: mass, gradient and errors, by kinds.

`background.py NAME` trains two small towers (loops/towers.py) on some of the training rows of NAME, an .npz file of
pairs or "functions", by shuffled and by planned batches, with several kinds of further candidates. Kinds are cells of
k-means on the embeddings after the first epoch, which is shuffled and the same for all runs of a seed. Of each run it
tells, after each epoch, how often a held-out row finds a wrong partner of its own kind or of another; of the
embeddings of some epochs, what batches of each sort hold of the full-batch gradient, in two parts: that of the
negatives of the anchor's own kind, and of other kinds. With `--output`, figures are stored as JSON, and a set that is
there already is not measured again; with `--picture`, they are drawn. `--states` keeps the weights, so that runs need
not be made again.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn.functional import normalize

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loops.runs import Row, store
from benchmarks.loops.towers import (
    TAU,
    Extra,
    Ints,
    Planner,
    Split,
    State,
    Towers,
    load,
    nearest,
    planned,
    shuffled,
    spectral,
    top1,
    train,
)

EXTRAS: dict[str, Extra | None] = {
    "nothing": None,
    "old": Extra(rows="old"),
    "fresh": Extra(rows="fresh"),
    "trained": Extra(rows="trained"),
    "old, weight 1": Extra(rows="old", share=1, weight=1),
    "fresh, weight 1": Extra(rows="fresh", share=1, weight=1),
    "trained, weight 1": Extra(rows="trained", share=1, weight=1),
    "old, push 2": Extra(rows="old", push=2),
    "old, weight 1, push 2": Extra(rows="old", share=1, weight=1, push=2),
}
PLANS: dict[str, Planner] = {"shuffled": shuffled, "Spectral": spectral, "Cut": planned}
OWN = ("shuffled", "Cut")  # runs by whose embeddings gradients are compared
RUNS = [
    ("shuffled", "nothing"),
    ("shuffled", "old"),
    ("shuffled", "old, weight 1"),
    ("shuffled", "old, weight 1, push 2"),
    ("shuffled", "trained, weight 1"),
    ("Cut", "nothing"),
    ("Cut", "old"),
    ("Cut", "old, push 2"),
]
ONCE = [("shuffled", "fresh, weight 1"), ("Cut", "fresh"), ("Cut", "trained")]
SHOWN = {
    ("full batch", "nothing"): "full batch",
    ("shuffled", "nothing"): "shuffled",
    ("shuffled", "old"): "shuffled, background",
    ("shuffled", "old, weight 1"): "shuffled, 256 old rows",
    ("shuffled", "trained, weight 1"): "shuffled, 256 rows with gradient",
    ("Cut", "nothing"): "Cut",
    ("Cut", "old"): "Cut, background",
}

States = list[list[Tensor]]


class Far(NamedTuple):
    """Further candidates of batches (K, B) without gradient: their samples (K, M) and rows of both sides (K, M, d)."""

    samples: Tensor
    rows: list[Tensor]
    extra: Extra
    population: int


def states_of(
    data: Split, plan: str, extra: str, *, seed: int, batch_size: int, epochs: int, store: Path | None
) -> States:
    """The towers' weights after each epoch of a run, which are kept in a folder if there is one."""
    path = None if store is None else _place(store, plan, extra, seed)
    if path is not None and path.exists():
        known: States = torch.load(path)
        return known
    states: States = []

    def keep(state: State) -> None:
        states.append([weight.detach().clone() for weight in state.towers.weights])

    train(data, PLANS[plan], EXTRAS[extra], seed=seed, batch_size=batch_size, epochs=epochs, after=keep)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(states, path)
    return states


def _place(store: Path, plan: str, extra: str, seed: int) -> Path:
    return store / f"{plan}, {extra}, {seed}.pt"


def towers_at(data: Split, weights: list[Tensor]) -> Towers:
    """The towers with given weights."""
    towers = Towers((data.train[0].shape[1], data.train[1].shape[1]), seed=0)
    with torch.no_grad():
        for own, given in zip(towers.weights, weights, strict=True):
            own.copy_(given)
    return towers


def find_kinds(units: list[Tensor], count: int, seed: int) -> KMeans:
    """k-means of the sums of the two sides."""
    return KMeans(count, n_init=1, random_state=seed).fit((units[0] + units[1]).numpy())


def errors(units: list[Tensor], kinds: Ints) -> Row:
    """The shares of rows whose nearest is a wrong one of their own kind, and one of another kind."""
    own = np.arange(len(kinds))
    found = nearest(units)
    inside = [(row != own) & (kinds[row] == kinds) for row in found]
    outside = [kinds[row] != kinds for row in found]
    return {"wrong_in_kind": float(np.mean(inside)), "wrong_kind": float(np.mean(outside))}


def pushes(units: list[Tensor], batches: Tensor, kinds: Tensor, far: Far | None) -> tuple[list[list[Tensor]], Tensor]:
    """The gradient of the summed losses of batches (K, B) in two parts, with respect to unit rows, in both roles.

    The loss of an anchor a with positive c_i is −log p_i; its gradient is Σ_{j≠i} p_j (c_j − c_i) / τ, a sum over
    negatives: those of the anchor's kind, and the others. Returned with the mean mass of both sorts, (2,).
    """
    parts = [[torch.zeros_like(side) for side in units] for _ in range(2)]
    mass = torch.zeros(2)
    flat, same = batches.reshape(-1), kinds[batches][:, :, None] == kinds[batches][:, None, :]
    own = torch.eye(batches.shape[1], dtype=torch.bool)
    for k in range(2):
        anchors, others = units[k][batches], units[1 - k][batches]
        scores = anchors @ others.mT / TAU
        log_far = None if far is None else _log_far(anchors, scores, batches, far, 1 - k)
        whole = scores if log_far is None else torch.cat([scores, log_far], dim=2)
        p = whole.softmax(dim=2)
        near, beside = p[:, :, : scores.shape[2]].masked_fill(own, 0), p[:, :, scores.shape[2] :]
        for part, chosen in enumerate((same, ~same)):
            held = near * chosen
            total = held.sum(dim=2)
            push = held @ others
            if far is not None:
                far_held = beside * ((kinds[far.samples][:, None, :] == kinds[batches][:, :, None]) == (part == 0))
                total = total + far_held.sum(dim=2)
                push = push + far.extra.push * (far_held @ far.rows[1 - k])
                if far.extra.rows == "trained":
                    back = (far_held.mT @ anchors / TAU).reshape(far.samples.numel(), -1)
                    parts[part][1 - k].index_add_(0, far.samples.reshape(-1), back)
            mass[part] += total.sum() / (2 * flat.numel())
            g_anchor = (push - total[:, :, None] * others) / TAU
            g_other = (held.mT @ anchors - total[:, :, None] * anchors) / TAU
            parts[part][k].index_add_(0, flat, g_anchor.reshape(len(flat), -1))
            parts[part][1 - k].index_add_(0, flat, g_other.reshape(len(flat), -1))
    return parts, mass


def _log_far(anchors: Tensor, scores: Tensor, batches: Tensor, far: Far, side: int) -> Tensor:
    """(K, B, M) logits of the further candidates, by their share; see `batchcut.losses.Background`."""
    within = (far.samples[:, :, None] == batches[:, None, :]).any(dim=2)
    beside = (anchors @ far.rows[side].mT / TAU).masked_fill(within[:, None, :], -1e30)
    inside = scores.masked_fill(torch.eye(batches.shape[1], dtype=torch.bool), -torch.inf).logsumexp(dim=2)
    share = torch.logit(torch.tensor(min(far.extra.share, 1 - 1e-7)))
    most = torch.log(torch.tensor(far.extra.weight or far.population / far.samples.shape[1]))
    return beside + torch.minimum(inside - beside.logsumexp(dim=2) + share, most)[:, :, None]


def weight_gradient(towers: Towers, inputs: list[Tensor], pushed: list[Tensor]) -> Tensor:
    """The gradient with respect to all weights, of one with respect to unit rows."""
    units = [normalize(side, dim=1) for side in towers.embed(inputs)]
    found = torch.autograd.grad(units, towers.weights, grad_outputs=pushed)
    return torch.cat([part.flatten() for part in found]).double()


def compare(towers: Towers, before: Towers, inputs: list[Tensor], kinds: Ints, batch_size: int, seed: int) -> list[Row]:
    """What batches of each sort hold of the full-batch gradient with respect to the weights, and of its two parts.

    Further candidates are those of the same draw: as they are now, or old, which is as they were before.
    """
    units, old = towers.units(inputs), before.units(inputs)
    labels, count = torch.from_numpy(kinds), len(kinds)
    whole, mass = pushes(units, torch.arange(count)[None], labels, None)
    targets = [weight_gradient(towers, inputs, part) for part in whole]
    full = targets[0] + targets[1]
    shares = {"kept_in_kind": _along(targets[0], full), "kept_other": _along(targets[1], full)}
    rows: list[Row] = [{"plan": "full batch", "extra": "nothing"} | _masses(mass) | shares]
    plans = {name: PLANS[name](units[0].numpy(), units[1].numpy(), batch_size, seed, 0) for name in OWN}
    for plan, extra in RUNS + ONCE:
        batches = torch.from_numpy(plans[plan])
        far, asked = None, EXTRAS[extra]
        if asked is not None:
            size = (len(batches), min(asked.count, count))
            samples = torch.from_numpy(np.random.default_rng(seed).integers(count, size=size))
            far = Far(samples, [side[samples] for side in (old if asked.rows == "old" else units)], asked, count)
        parts, mass = pushes(units, batches, labels, far)
        found = [weight_gradient(towers, inputs, part) for part in parts]
        scale = count / batches.numel()
        row: Row = {"plan": plan, "extra": extra} | _masses(mass)
        row |= {"kept_in_kind": scale * _along(found[0], full), "kept_other": scale * _along(found[1], full)}
        row |= {f"of_{name}": scale * _along(found[k], targets[k]) for k, name in enumerate(("in_kind", "other"))}
        row["cosine"] = float(torch.cosine_similarity(found[0] + found[1], full, dim=0))
        rows.append(row)
    return rows


def _masses(mass: Tensor) -> Row:
    return {"mass_in_kind": float(mass[0]), "mass_other": float(mass[1])}


def _along(gradient: Tensor, target: Tensor) -> float:
    return float(gradient @ target / target.square().sum())


def follow(data: Split, states: States, kinds: list[KMeans]) -> list[Row]:
    """Of each epoch: how many held-out rows find their partner, and by each number of kinds, what the others find."""
    first = towers_at(data, states[0]).units(data.held)
    labels = {str(len(found.cluster_centers_)): found.predict((first[0] + first[1]).numpy()) for found in kinds}
    rows: list[Row] = []
    for epoch, weights in enumerate(states, start=1):
        held = towers_at(data, weights).units(data.held)
        by_kinds = {count: errors(held, own.astype(np.int64)) for count, own in labels.items()}
        rows.append({"epoch": epoch, "top1": top1(held), "kinds": by_kinds})
    return rows


def draw(facts: Row, path: Path, *, kinds: int) -> None:
    """What batches keep of the full-batch gradient, and the errors after training, each in two parts."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "batchcut"  # the same results give the same file
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2))
    last = facts["gradients"][-1]["epoch"]
    found = {
        (row["plan"], row["extra"]): row
        for row in facts["gradients"]
        if (row["of"], row["epoch"], row["kinds"]) == ("Cut", last, kinds)
    }
    shown = [key for key in SHOWN if key in found]
    _bars(
        left,
        [SHOWN[key] for key in shown],
        [[found[key][name] for key in shown] for name in ("kept_other", "kept_in_kind")],
    )
    left.set(xlabel="share of the full-batch gradient that is kept")
    runs = {key: [run for run in facts["runs"] if (run["plan"], run["extra"]) == key] for key in SHOWN}
    shown = [key for key in SHOWN if runs[key]]
    wrong = [
        [100 * float(np.mean([run["epochs"][-1]["kinds"][str(kinds)][name] for run in runs[key]])) for key in shown]
        for name in ("wrong_kind", "wrong_in_kind")
    ]
    _bars(right, [SHOWN[key] for key in shown], wrong)
    right.set(xlabel="held-out rows that find a wrong partner, %")
    for panel, names in (
        (left, ["by negatives of other kinds", "of the anchor's kind"]),
        (right, ["of another kind", "of their own"]),
    ):
        panel.legend(names, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def _bars(panel: Any, labels: list[str], parts: list[list[float]]) -> None:
    places, start = np.arange(len(labels))[::-1], np.zeros(len(labels))
    for part, color in zip(parts, ("tab:orange", "tab:blue"), strict=True):
        panel.barh(places, part, left=start, color=color, height=0.7)
        start = start + np.array(part)
    panel.set_yticks(places, labels, fontsize=8)


def measure(data: Split, options: argparse.Namespace, store: Path) -> Row:
    """All runs and gradients of a set."""
    how = {"batch_size": options.batch_size, "epochs": options.epochs, "store": store}
    chosen = torch.from_numpy(np.random.default_rng(0).permutation(len(data.train[0]))[: options.samples].copy())
    some = [side[chosen] for side in data.train]
    facts: Row = {"samples": len(data.train[0]), "held_out": len(data.held[0]), "runs": [], "gradients": []}
    for seed in options.seeds:
        states = states_of(data, "shuffled", "nothing", seed=seed, **how)
        first = towers_at(data, states[0]).units(some)
        kinds = [find_kinds(first, count, seed) for count in options.kinds]
        for plan, extra in RUNS + (ONCE if seed == options.seeds[0] else []):
            if options.only_stored and not _place(store, plan, extra, seed).exists():
                continue
            states = states_of(data, plan, extra, seed=seed, **how)
            run = {"plan": plan, "extra": extra, "seed": seed, "epochs": follow(data, states, kinds)}
            facts["runs"].append(run)
            print(plan, extra, seed, *(f"{row['top1']:.2%}" for row in run["epochs"]), flush=True)
        if seed == options.seeds[0]:
            facts["gradients"] = gradients(data, some, kinds, options, how | {"seed": seed})
    return facts


def gradients(data: Split, some: list[Tensor], kinds: list[KMeans], options: argparse.Namespace, how: Row) -> list[Row]:
    """What batches hold by the embeddings of a shuffled and a planned run."""
    rows: list[Row] = []
    for of in OWN:
        states = [towers_at(data, weights) for weights in states_of(data, of, "nothing", **how)]
        for epoch in options.looked_at:
            for found in kinds:
                labels, now, before = found.labels_.astype(np.int64), states[epoch - 1], states[epoch - 2]
                facts = {"of": of, "epoch": epoch, "kinds": len(found.cluster_centers_)}
                for row in compare(now, before, some, labels, options.batch_size, how["seed"]):
                    rows.append(facts | row)
                    print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Trains, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help='.npz file with train_u and train_v, or "functions"')
    parser.add_argument("--seeds", type=int, nargs="+", default=[70, 71, 72])
    parser.add_argument("--kinds", type=int, nargs="+", default=[64], help="numbers of kinds; the first is drawn")
    parser.add_argument("--samples", type=int, default=4096, help="training rows that kinds and gradients are of")
    parser.add_argument("--looked-at", type=int, nargs="+", default=[5], help="epochs after which they are")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--states", type=Path, required=True, help="folder to keep weights in")
    parser.add_argument("--only-stored", action="store_true", help="leave out runs that are not there")
    parser.add_argument("--output", type=Path, help="store the figures here as JSON, beside those of the other set")
    parser.add_argument("--picture", type=Path, help="draw them here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    name = "functions" if options.data == "functions" else "pairs"
    known: Row = {}
    if options.output is not None and options.output.exists():
        known = json.loads(options.output.read_text(encoding="utf-8"))
    if name not in known:
        known[name] = measure(load(options.data), options, options.states / name / str(options.batch_size))
        store(options.output, known)
    if options.picture is not None:
        draw(known[name], options.picture, kinds=options.kinds[0])


if __name__ == "__main__":
    main()
