"""Folders as training leaves them, made without training."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from batchcut.selection import Cut, Shuffle

SAMPLES, DIM, BATCH, TEMPERATURE = 96, 8, 8, 0.1


def write_run(
    folder: Path, *, method: str = "cut", seed: int = 0, epochs: int = 3, gain: float = 0.0, settings: str = ""
) -> Path:
    """A run on the first 96 digits; `gain` moves all its accuracies."""
    (folder / "plans").mkdir(parents=True)
    (folder / "embeddings").mkdir()
    config = (
        f"seed = {seed}\nepochs = {epochs}\nbatch_size = {BATCH}\n{settings}\n[data]\nname = 'digits'\nroot = 'none'\n"
        f"train = {SAMPLES}\n[objective]\ntemperature = {TEMPERATURE}\n[selection.selector]\nmethod = '{method}'\n"
    )
    (folder / "config.toml").write_text(config)
    start = {"python": "3.11.0", "versions": {"torch": "2.13.0"}, "processors": 2, "command": ["/x/batchcut", "train"]}
    (folder / "environment.json").write_text(json.dumps([start]))
    rng = np.random.default_rng(seed)
    metrics, timings = [], []
    steps = SAMPLES // BATCH
    for epoch in range(epochs):
        if method == "cut" and epoch > 0:
            metrics.append(_plan(folder, epoch, epochs, rng))
        step = (epoch + 1) * steps
        losses = (3 / (epoch + 1) + rng.random(steps)).round(4).tolist()
        metrics.append({"event": "losses", "epoch": epoch, "step": step, "losses": losses})
        score = {"top1": 0.2 * (epoch + 1) + gain + 0.01 * seed, "top5": 0.5, "mrr": 0.4}
        metrics.append({"event": "evaluation", "epoch": epoch + 1, "step": step} | score)
        seconds = {"training": 2.0, "planning": 0.5 * (method == "cut"), "evaluation": 0.25, "checkpoint": 0.1}
        timings.append({"event": "epoch", "epoch": epoch, "step": step} | seconds)
    write_lines(folder / "metrics.jsonl", metrics)
    write_lines(folder / "timings.jsonl", timings)
    index = np.arange(0, SAMPLES, 2)
    for name, spread in (("initial", 0.1), ("final", 3.0)):
        u, v = embeddings(len(index), rng, spread=spread)
        save_file({"index": index, "u": u, "v": v}, folder / "embeddings" / f"{name}.safetensors")
    (folder / "result.json").write_text(json.dumps({"steps": epochs * steps}))
    return folder


def embeddings(count: int, rng: np.random.Generator, *, spread: float = 3.0) -> tuple[Any, Any]:
    """Pairs of unit rows around a common direction."""
    u = np.ones((count, DIM)) + spread * rng.normal(size=(count, DIM))
    v = u + 3.0 * rng.normal(size=u.shape)
    return tuple((side / np.linalg.norm(side, axis=1, keepdims=True)).astype(np.float32) for side in (u, v))


def write_lines(path: Path, events: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def _plan(folder: Path, epoch: int, epochs: int, rng: np.random.Generator) -> dict[str, Any]:
    u, v = embeddings(SAMPLES, rng)
    # Without a margin, so that there are suspected false negatives to show.
    plan = Cut(temperature=TEMPERATURE, margin=None)(u, v, batch_size=BATCH, seed=0, epoch=epoch)
    plan.save(folder / "plans" / f"epoch-{epoch:04d}.npz")
    shuffle = Shuffle(temperature=TEMPERATURE)(u, v, batch_size=BATCH, seed=0)
    kept = {
        "epoch": np.array([epoch]),
        "batches": np.arange(len(plan)),
        "shuffled": shuffle.batches[:2],
        "index": np.arange(SAMPLES),
        "u": u,
        "v": v,
    }
    names = ["last-plan"] if epoch > 1 else ["first-plan", "last-plan"]
    for name in names:
        save_file(kept, folder / "embeddings" / f"{name}.safetensors")
    effective = plan.measured(u, v).effective
    losses = {
        "mean_loss": plan.mean_loss,
        "shuffled_loss": shuffle.mean_loss,
        "effective_size": None if effective is None else effective.facts,
    }
    return {"event": "plan", "epoch": epoch, "method": "Cut"} | losses
