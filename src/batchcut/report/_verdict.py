"""Which method came out ahead, whichever it is, and how sure that is, in words."""

import math

from ._compare import Comparison, Group, differences, flattened
from ._gain import Gain, gain_over
from ._svg import score

_ONE_SEED = "one seed is no verdict"
_WITHOUT_BACKGROUND = ("Shuffle", "Ordered")


def finding(comparison: Comparison) -> str:
    """In a few sentences what the runs say; a line for each task, since no others can be ranked."""
    parts = comparison.tasks
    if len(parts) == 1:
        return _finding(parts[0])
    apart = "These runs are of different data or tests, and are not ranked against each other."
    return "\n".join([apart, *(f"{part.task}: {_finding(part)}" for part in parts)])


def _finding(part: Comparison) -> str:
    scored = [group for group in part.groups if group.scores]
    if not scored:
        return "No run is finished yet."
    gains = [(group, gain) for group in scored if (gain := part.gain(group)) is not None]
    if not gains:
        return _without_baseline(scored)
    best, gain = max(gains, key=lambda pair: pair[1].mean)
    others = [(group, other) for group, other in gains if group is not best and other.mean < 0 <= gain.mean]
    behind = ", ".join(f"{group.label} ({other.points})" for group, other in others)
    more = differences(base, best) if (base := part.baseline(best)) else []
    sentences = [
        f"{_ahead(best, gain)}{_sooner(part, best, gain)}.",
        _doubt(gain, len(gains)),
        f"Not above shuffled batches: {behind}." if behind else "",
        f"Not the batches alone differ: {', '.join(more)}." if more else "",
        "Beside planned batches the loss may see a background, too (selection.background)." if _sees_more(best) else "",
    ]
    return " ".join(filter(None, sentences))


def _sees_more(group: Group) -> bool:
    """Whether old embeddings stand beside its batches, where they help: in no loss of shuffled ones, nor in SogCLR."""
    config = flattened(group.runs[0].config)
    alone = group.method in _WITHOUT_BACKGROUND or config.get("objective.loss") == "sogclr"
    return config.get("selection.background") is True and not alone


def _ahead(best: Group, gain: Gain) -> str:
    scores = f"({score(best.top1)} against {score(best.top1 - gain.mean)})"
    if math.isclose(gain.mean, 0, abs_tol=1e-9):
        return f"{best.label} and shuffled batches end level {scores}"
    if gain.mean > 0:
        return f"{best.label} ends {_points(gain)} above shuffled batches {scores}"
    return f"No plan beats shuffled batches here: {best.label} ends {_points(gain)} below them {scores}"


def _points(gain: Gain) -> str:
    return f"{gain.points.lstrip('+−')} points"


def _sooner(part: Comparison, best: Group, gain: Gain) -> str:
    reached = part.steps_to_baseline(best)
    if gain.mean <= 0 or reached is None or reached >= best.steps:
        return ""
    return f" and passes their result after {reached / best.steps * 100:.0f} % of the steps"


def _doubt(gain: Gain, among: int) -> str:
    """How sure it is, in a sentence."""
    if math.isnan(gain.standard_error):
        return f"But {_ONE_SEED}: nothing says how much runs differ by chance."
    over = f"over {gain.seeds} seeds, in pairs" if gain.seeds else "of runs with different seeds"
    interval = f"the 95 % interval is ± {gain.half_width(among=among) * 100:.1f}"
    if gain.is_certain(among=among):
        return f"The ± is the standard error {over}; {interval}, clear of 0."
    return f"That is no verdict: {interval}, which holds 0, so that chance may explain it."


def _without_baseline(scored: list[Group]) -> str:
    """What can be said where nothing is there to compare a plan with, or several shuffled groups are."""
    best, *rest = sorted(scored, key=lambda group: -group.top1)
    gain = gain_over(best.scores, rest[0].scores) if rest else None
    if gain is None:
        spread = f" ± {best.spread * 100:.2g}" if math.isfinite(best.spread) else f" ({_ONE_SEED})"
        return f"The top-1 accuracy of {best.label} is {score(best.top1)}{spread}; there is nothing to compare it with."
    scores = f"({score(best.top1)} against {score(rest[0].top1)})"
    doubt = _doubt(gain, math.comb(len(scored), 2))
    return f"{best.label} is {_points(gain)} above {rest[0].label}, the next {scores}. {doubt}"
