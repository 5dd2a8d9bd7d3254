"""One page of HTML from run folders: it needs nothing but itself."""

import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from batchcut import __version__
from batchcut._errors import invalid
from batchcut._files import check_target, write_bytes

from ._charts import (
    PARTS,
    accuracy_chart,
    effective_size_chart,
    loss_chart,
    loss_histograms,
    same_class_chart,
    time_chart,
)
from ._compare import Comparison, Group, compare, flattened
from ._coverage import chance_of_same_class, coverages
from ._explorer import KINDS, explorer_data, shown_plans
from ._geometry import geometries
from ._labels import short_name
from ._run import Run, read_runs
from ._samples import Samples, files_of, read_texts, samples_of
from ._search import SearchIndex, search_facts
from ._svg import STYLES, key_mark, number, percent, score
from ._verdict import finding

_MOST_BYTES = 5_000_000


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    title: str = "batchcut report",
    texts: Path | None = None,
    search: SearchIndex | None = None,
) -> Path:
    """Writes the report of some runs, or of the runs in some folders, and returns its path.

    Args:
        runs: folders of runs, or folders of such.
        out: the HTML file; folders on the way are made.
        title: of the page.
        texts: a file with a line of text for each training sample.
        search: what a box to search in finds; None: no such box.
    """
    target = Path(out)
    check_target("--out", target, inputs=[texts])
    found = read_runs(runs)
    if not found:
        raise ValueError("RUN must name at least one run; got none")
    check_target("--out", target, inputs=[path for run in found for path in files_of(run)])
    index = "" if search is None else script_data(search_facts(search))
    lines, searched = None if texts is None else read_texts(texts), "" if search is None else search.verdict
    page = render(found, title=title, texts=lines, search=index, searched=searched)
    return write_page(page, target, made_from=f" from {len(found)} runs: name fewer", index_bytes=len(index))


def write_page(page: str, target: Path, *, made_from: str = "", index_bytes: int = 0) -> Path:
    """Writes a page, with the folders on the way, if it is one that browsers open at once; returns its path.

    An index to search in, so many bytes of it, is not counted.
    """
    content = page.encode()
    size = len(content) - index_bytes
    if size > _MOST_BYTES:
        raise ValueError(f"a report must stay under 5 MB; got {size / 1e6:.1f} MB{made_from}")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(target, content)
    return target


def render(
    runs: Sequence[Run], *, title: str, texts: list[str] | None = None, search: str = "", searched: str = ""
) -> str:
    """The page of some runs; with a box to search in, where an index is given as JSON, and what is said of it."""
    return filled("page.html", title=title, search=search, searched=searched, **_content(runs, texts))


def filled(template: str, **content: Any) -> str:
    """A template with its content, and what all pages have: style, script and version."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ValueError("a report needs Jinja2 and Pillow; pip install 'batchcut[report]' brings both") from error

    environment = Environment(
        loader=PackageLoader("batchcut.report"), autoescape=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"percent": percent, "number": number}
    same = {"version": __version__, "style": _asset("style.css"), "script": _asset("explorer.js"), "search": ""}
    return environment.get_template(template).render(same | content)


def _content(runs: Sequence[Run], texts: list[str] | None) -> dict[str, Any]:
    comparison = compare(runs)
    sets = {json.dumps(run.config.get("data", {}), sort_keys=True) for run in runs}
    note = "The runs are of different data sets, so that samples cannot be shown together."
    samples = samples_of(runs[0], texts) if len(sets) == 1 else Samples(note=note)
    plans = shown_plans(comparison) if len(sets) == 1 else []
    known = len(samples.pixels) if samples.pixels is not None else math.inf
    for plan in (shown.plan for shown in plans if shown.plan.count > known):
        raise invalid("a run", f"be of the {known} samples that its config.toml names", f"a plan of {plan.count}")
    covered = coverages(comparison, samples, plans)
    chance = chance_of_same_class(samples.labels)
    data, sheet = explorer_data(plans, samples)
    return {
        "search_script": _asset("search.js"),
        "comparison": comparison,
        "rows": [_row(part, group) for part in comparison.tasks for group in part.groups],
        "finding": finding(comparison),
        "charts": [
            chart(part) for part in comparison.tasks for chart in (accuracy_chart, loss_chart, effective_size_chart)
        ],
        "time": time_chart(comparison),
        "parts": PARTS,
        "histograms": loss_histograms(comparison),
        "geometries": geometries(comparison, samples),
        "samples": samples,
        "sheet": sheet,
        "explorer": script_data(data) if data["samples"] else "",
        "coverages": covered,
        "chance": chance,
        "chance_key": key_mark(STYLES, marked=False),
        "same_class": same_class_chart(comparison, covered, chance),
        "kinds": KINDS,
        "unfinished": [run for run in runs if run.result is None],
        "runs": runs,
        "differences": _differences(runs),
        "setting": _setting(runs),
    }


def _row(comparison: Comparison, group: Group) -> dict[str, Any]:
    reached, losses, gain = comparison.steps_to_baseline(group), group.planned_losses, comparison.gain(group)
    steps = "never" if reached is None else f"{reached:,} of {group.steps:,}"
    base = comparison.baseline(group)
    return {
        "task": comparison.task,
        "label": group.label,
        "key": key_mark(group.place % STYLES),
        "seeds": len(group.runs),
        "top1": score(group.top1),
        "spread": f"± {group.spread * 100:.1f}" if math.isfinite(group.spread) else "",
        "gain": "–" if gain is None else gain.points,
        "to_baseline": "–" if base in (None, group) else steps,
        "planning": f"{group.seconds('planning'):.2f}",
        "effective": f"{group.effective_size:,.0f}" if math.isfinite(group.effective_size) else "–",
        "planned": "–" if losses is None else f"{number(losses[0])} against {number(losses[1])}",
    }


def _setting(runs: Sequence[Run]) -> str:
    """What the runs have in common, in a line."""
    names = {str(run.config.get("data", {}).get("name", "digits")) for run in runs}
    sizes = {run.batch_size for run in runs}
    temperatures = {run.temperature for run in runs}
    seeds = sorted({run.seed for run in runs})
    parts = [f"data {', '.join(map(short_name, sorted(names)))}", f"batch size {', '.join(map(str, sorted(sizes)))}"]
    parts.append(f"temperature {', '.join(map(str, sorted(temperatures)))}")
    return ", ".join([*parts, f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"])


def _differences(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Settings in which runs differ, with the value of each run."""
    flats = [flattened(run.config) for run in runs]
    names = list(dict.fromkeys(name for flat in flats for name in flat))
    table = [(name, [str(flat.get(name, "–")) for flat in flats]) for name in names]
    return [(name, values) for name, values in table if len(set(values)) > 1]


def _asset(name: str) -> str:
    return resources.files("batchcut.report").joinpath("templates", name).read_text(encoding="utf-8")


def script_data(data: dict[str, Any]) -> str:
    """JSON that can stand in a script element: nothing in it ends the element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
