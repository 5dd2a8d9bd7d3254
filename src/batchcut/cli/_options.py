"""The types of options that may be left out; `--help` shows what they take, not that they may be None."""

from pathlib import Path
from typing import Annotated

import tyro

OptionalInteger = Annotated[int | None, tyro.conf.arg(metavar="INT")]
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH")]
OptionalText = Annotated[str | None, tyro.conf.arg(metavar="NAME")]
