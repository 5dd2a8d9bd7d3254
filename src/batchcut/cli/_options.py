"""The types of options that more than one verb has, or that may be left out.

`--help` shows what they take, not that they may be None: what is done without them stands in their text.
"""

from pathlib import Path
from typing import Annotated

import tyro

OptionalInteger = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
OptionalText = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
Out = Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="PATH")]
OptionalOut = Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="PATH", help_behavior_hint="")]
OptionalOutput = Annotated[
    Path | None, tyro.conf.arg(aliases=["-o", "--output"], metavar="PATH", help_behavior_hint="")
]
"""Of verbs that called it --output once."""
