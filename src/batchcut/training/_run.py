"""Beginning a run, going on with one, and what comes out."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save
from torch import nn

from batchcut._errors import invalid
from batchcut._files import json_of, read_json, read_lines, reading, write_bytes, write_json
from batchcut._progress import silent
from batchcut.data import Images, Split, check_there, load

from ._checkpoint import Checkpoint, checkpoint_steps, last_good_checkpoint, remove_checkpoint, restore
from ._config import Config, DataSettings, MachineSettings
from ._folder import Observer, RunFolder
from ._tensorboard import TensorBoard, check_tensorboard
from ._trainer import Trainer

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came out of a run.

    Attributes:
        run: its folder.
        steps: how many were taken.
        scores: of the last evaluation.
        seconds: where the time went, over all starts but for steps that a stop undid: planning, training, evaluation,
            checkpoint.
    """

    run: Path
    steps: int
    scores: dict[str, float]
    seconds: dict[str, float]


def train(config: Config, run: str | Path, *, split: Split | None = None, observe: Observer | None = None) -> Result:
    """Begins a run in a new folder and takes it to its end.

    Args:
        config: all settings.
        run: the folder; it must be new or empty.
        split: what `config.data` names, where it is read already; None: it is read now.
        observe: called with each line of metrics, after each step, while data are fetched and once they are read.
    """
    return _run(config, RunFolder(Path(run)), split, observe or silent)


def resume(run: str | Path, *, split: Split | None = None, observe: Observer | None = None) -> Result:
    """Goes on with a run from its last good checkpoint; weights, plans and metrics end as if it had never stopped.

    A run that is finished is left as it is.
    """
    return _run(None, RunFolder(Path(run)), split, observe or silent)


def _run(config: Config | None, folder: RunFolder, split: Split | None, observe: Observer) -> Result:
    settings = folder.config() if config is None else config
    check_there(settings.data.name)
    fabric = _fabric(settings.machine)
    leads = fabric.global_rank == 0
    if settings.keeping.tensorboard:
        check_tensorboard()
    if leads and config is not None:
        folder.check_new()
    if split is None:
        split = _load(settings.data, observe if leads else silent)
    trainer = Trainer(settings, split, fabric, folder, observe)
    with ExitStack() as stack:
        if leads:
            stack.callback((folder.open() if config is None else folder.create(settings)).release)
        checkpoint = last_good_checkpoint(folder.checkpoints) if checkpoint_steps(folder.checkpoints) else None
        if checkpoint is not None:
            restore(trainer, checkpoint)
            if (result := _finished(trainer)) is not None:
                return result
        if leads:
            folder.add_environment(world_size=fabric.world_size, device=str(fabric.device), data=split.train.name)
        stack.callback(trainer.diary.close)
        _go_back(trainer, checkpoint)
        if leads and settings.keeping.tensorboard:
            board = TensorBoard(folder.path / "tensorboard", step=trainer.step)
            stack.callback(board.close)
            trainer.diary.tell_also(board)
        if leads:
            note = split.train.note if isinstance(split.train, Images) else ""
            observe({"event": "data", "name": split.train.name, "note": note})
        trainer.run()
        return _finish(trainer)


def _load(data: DataSettings, observe: Observer) -> Split:
    def tell(name: str, done: int, total: int) -> None:
        observe({"event": "fetch", "name": name, "done": done, "total": total})

    root = None if data.root is None else Path(data.root)
    return load(data.name, root=root, download=data.download, progress=tell)


def _go_back(trainer: Trainer, checkpoint: Checkpoint | None) -> None:
    """Puts what is in the folder where a checkpoint says; at the start if there is none."""
    folder, lengths, plans = trainer.folder, None, []
    if checkpoint is not None:
        lengths, plans = checkpoint.facts["lengths"], checkpoint.facts["plans"]
    trainer.fabric.barrier()
    trainer.diary.open(folder.path, lengths)
    if trainer.leads:
        folder.drop_plans(but=plans)
        for later in (step for step in checkpoint_steps(folder.checkpoints) if step > trainer.step):
            remove_checkpoint(folder.checkpoints, later)


def _finished(trainer: Trainer) -> Result | None:
    """What came out of a run that is at its end with all that belongs to it; None if it is not."""
    run = trainer.folder.path
    there = all((run / name).is_file() for name in ("result.json", "model.safetensors"))
    if trainer.epoch < trainer.config.epochs or not there:
        return None
    summary = read_json(run / "result.json", dict)
    with reading(run / "result.json", "be the result of a run", found=""):
        seconds = {str(name): float(value) for name, value in summary["seconds"].items()}
    return Result(run=run, steps=trainer.step, scores=trainer.scores, seconds=seconds)


def _finish(trainer: Trainer) -> Result:
    seconds: dict[str, float] = {}
    if trainer.leads:
        path = trainer.folder.path / "timings.jsonl"
        for line in read_lines(path, "hold timings"):
            with reading(path, "hold timings, undamaged", found=""):
                for name, value in json_of(line, dict).items():
                    if name not in ("event", "epoch", "step"):
                        seconds[name] = seconds.get(name, 0.0) + value
        write_bytes(trainer.folder.path / "model.safetensors", save(_weights(trainer.bare_model)))
        summary = {"steps": trainer.step, "epochs": trainer.epoch, "scores": trainer.scores, "seconds": seconds}
        write_json(trainer.folder.path / "result.json", summary)
    return Result(run=trainer.folder.path, steps=trainer.step, scores=trainer.scores, seconds=seconds)


def _weights(model: nn.Module) -> dict[str, Any]:
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


def _fabric(machine: MachineSettings) -> "Fabric":
    """Fabric for one process or for many; under `torchrun` there are as many as that says."""
    from lightning.fabric import Fabric  # takes seconds, which nobody should wait for who only reads settings
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    devices, nodes = machine.devices, machine.nodes
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    elif devices > (most := max(os.cpu_count() or 1, torch.cuda.device_count())):
        # Each is a process: Fabric would start them all, however many.
        raise invalid("machine.devices", f"be at most the number of processors or devices here, {most}", devices)
    try:
        fabric = Fabric(
            accelerator=machine.accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy="ddp" if devices * nodes > 1 else "auto",
            precision=machine.precision,
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        raise ValueError(
            f"machine.accelerator must be one that is here; got {machine.accelerator!r}: {error}"
        ) from error
    fabric.launch()
    return fabric
