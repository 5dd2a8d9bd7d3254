"""The scalars of a run for TensorBoard."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_OF_EVENTS = {
    "step": {"loss": "train/loss", "lr": "train/learning_rate"},
    "plan": {"mean_loss": "plan/loss", "effective_size": "plan/effective_size"},
}


class TensorBoard:
    """An observer that writes events of a run into a folder, as scalars by step.

    Its files hold the time of day, so they are not the same when a run is repeated; all that is in them is in
    metrics.jsonl, too.

    Args:
        folder: where the files are; those of earlier starts stay, but for the steps that are taken again.
        step: how many steps were taken before.
    """

    def __init__(self, folder: Path, *, step: int) -> None:
        self._writer = _writer_class()(str(folder), purge_step=step + 1 if step else None)
        self._step = step

    def __call__(self, event: Mapping[str, Any]) -> None:
        self._step = int(event.get("step", self._step))
        for name, value in scalars_of(event):
            self._writer.add_scalar(name, value, self._step)

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


def scalars_of(event: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What TensorBoard shows of an event, by names."""
    kind = event.get("event")
    for key, name in _OF_EVENTS.get(str(kind), {}).items():
        value = event.get(key)
        if isinstance(value, Mapping):
            value = value["size"]
        if value is not None:
            yield name, float(value)
    if kind == "plan" and event.get("shuffled_loss"):
        yield "plan/times_shuffled", event["mean_loss"] / event["shuffled_loss"]
    if kind == "evaluation":
        yield from ((f"test/{key}", float(event[key])) for key in event if key not in ("event", "epoch", "step"))


def check_tensorboard() -> None:
    """Refuses to begin where TensorBoard is not installed."""
    _writer_class()


def _writer_class() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # takes a second
    except ModuleNotFoundError as error:
        raise ImportError(
            "keeping.tensorboard=true needs TensorBoard, and it is not installed: pip install "
            '"batchcut[tensorboard]" brings it'
        ) from error
    return SummaryWriter
