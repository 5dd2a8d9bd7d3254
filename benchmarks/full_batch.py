"""Time, memory and gradients of `full_batch_loss` beside those of `contrastive_loss`.

Prints a table with the bar for each figure, and ends with exit code 1 if one is missed. Each figure comes from its own
process, so that none sees the memory of another. Time is that of forward and backward pass together, the best of
several rounds in which the two losses take turns to go first. Memory is the highest resident size of the process minus
its size once the inputs are made; it includes the gradients.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # this process stays small: a child's peak starts at the size of its parent
    from torch import Tensor

    Loss = Callable[..., Tensor]

TEMPERATURE = 0.05
MAX_TIME_RATIO = 1.5
MAX_GIB = 1.0
MAX_GRADIENT_DIFFERENCE = 1e-5
GIB = 2**30


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    options = _options()
    if options.task is not None:
        name, *arguments = options.task
        print(json.dumps(TASKS[name](*(int(x) for x in arguments))))
        return 0

    speed = _in_new_process("speed", options.size, options.dim, options.rounds)
    tiled = _in_new_process("memory", 1, options.full_size, options.dim)["bytes"] / GIB
    plain_size = options.full_size if options.plain_at_full_size else min(options.plain_size, options.full_size)
    plain = _in_new_process("memory", 0, plain_size, options.dim)["bytes"] / GIB
    at_full_size = plain * (options.full_size / plain_size) ** 2

    small, full = f"N = {options.size:,}", f"N = {options.full_size:,}"
    ratio, gap = speed["tiled"] / speed["plain"], speed["gradient_difference"]
    print(f"{'':<24} {'contrastive':>12} {'full_batch':>12} {'figure':>10} {'bar':>8}")
    passed = [
        _row(f"seconds, {small}", f"{speed['plain']:.3f}", f"{speed['tiled']:.3f}", ratio, MAX_TIME_RATIO),
        _row(f"gradients, {small}", "", "", gap, MAX_GRADIENT_DIFFERENCE),
        _row(f"GiB, {full}", f"{at_full_size:.1f}", f"{tiled:.2f}", tiled, MAX_GIB),
    ]
    print(f"d = {options.dim}, float32, temperature {TEMPERATURE}, {speed['threads']} threads")
    print("seconds: the figure is the ratio; gradients: largest difference of an entry over the largest entry")
    if plain_size != options.full_size:
        print(f"GiB of contrastive_loss: {plain:.2f} measured at N = {plain_size:,}, taken to {full} by N²")
    return 0 if all(passed) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare full_batch_loss with contrastive_loss: time, gradients and memory.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--size", type=int, default=8192, metavar="N", help="pairs for time and gradients")
    parser.add_argument(
        "--full-size", type=int, default=50_000, metavar="N", help="pairs for the memory of full_batch_loss"
    )
    parser.add_argument(
        "--plain-size",
        type=int,
        default=20_000,
        metavar="N",
        help="pairs for the memory of contrastive_loss, from which that at --full-size is extrapolated by N²",
    )
    parser.add_argument(
        "--plain-at-full-size",
        action="store_true",
        help="measure contrastive_loss at --full-size instead (over 20 GiB at 50,000)",
    )
    parser.add_argument("--dim", type=int, default=128, metavar="D", help="dimension of the embeddings")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of which the best time counts")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def _row(name: str, plain: str, tiled: str, figure: float, bar: float) -> bool:
    passed = figure <= bar
    print(f"{name:<24} {plain:>12} {tiled:>12} {figure:>10.3g} {bar:>8g}  {'PASS' if passed else 'FAIL'}")
    return passed


def _in_new_process(task: str, *arguments: int) -> Any:
    command = [sys.executable, __file__, "--task", task, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def _losses() -> tuple["Loss", "Loss"]:
    from batchcut.losses import contrastive_loss, full_batch_loss

    return contrastive_loss, full_batch_loss


def _pairs(n: int, dim: int) -> "Sequence[Tensor]":
    import torch

    generator = torch.Generator().manual_seed(0)
    u = torch.nn.functional.normalize(torch.randn(n, dim, generator=generator), dim=1)
    v = torch.nn.functional.normalize(u + 0.1 * torch.randn(n, dim, generator=generator), dim=1)
    return u.requires_grad_(), v.requires_grad_()


def _step(loss: "Loss", pairs: "Sequence[Tensor]") -> "tuple[float, Sequence[Tensor]]":
    """Seconds and gradients of one forward and backward pass."""
    import torch

    start = time.perf_counter()
    gradients = torch.autograd.grad(loss(*pairs, temperature=TEMPERATURE), pairs)
    return time.perf_counter() - start, gradients


def measure_speed(n: int, dim: int, rounds: int) -> dict[str, float]:
    """Best seconds of both losses, and how far their gradients are apart."""
    import torch

    losses = dict(zip(("plain", "tiled"), _losses(), strict=True))
    pairs = _pairs(n, dim)
    gradients = {name: _step(loss, pairs)[1] for name, loss in losses.items()}  # also warms up
    difference = max(
        float((tiled - plain).abs().max() / plain.abs().max())
        for plain, tiled in zip(gradients["plain"], gradients["tiled"], strict=True)
    )
    seconds: dict[str, list[float]] = {name: [] for name in losses}
    for turn in range(rounds):
        for name in sorted(losses, reverse=turn % 2 == 1):
            seconds[name].append(_step(losses[name], pairs)[0])
    best = {name: min(times) for name, times in seconds.items()}
    return {**best, "gradient_difference": difference, "threads": torch.get_num_threads()}


def measure_memory(which: int, n: int, dim: int) -> dict[str, int]:
    """Bytes above the inputs at the highest point of one step; `which` is 0 for the plain loss, 1 for the tiled."""
    import psutil

    loss = _losses()[which]
    _step(loss, _pairs(256, dim))  # what torch sets up on first use is no part of the loss
    pairs = _pairs(n, dim)
    before = psutil.Process().memory_info().rss
    _step(loss, pairs)
    unit = 1 if sys.platform == "darwin" else 1024
    return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before}


TASKS: dict[str, Callable[..., Any]] = {"speed": measure_speed, "memory": measure_memory}


if __name__ == "__main__":
    sys.exit(main())
