"""Training: from images or pairs of features to an encoder, by batches that teach most."""

from ._config import Config as Config
from ._config import DataSettings as DataSettings
from ._config import EvaluationSettings as EvaluationSettings
from ._config import KeepingSettings as KeepingSettings
from ._config import MachineSettings as MachineSettings
from ._config import ModelSettings as ModelSettings
from ._config import ObjectiveSettings as ObjectiveSettings
from ._config import OptimizerSettings as OptimizerSettings
from ._config import SelectionSettings as SelectionSettings
from ._config import ViewSettings as ViewSettings
from ._run import Result as Result
from ._run import resume as resume
from ._run import train as train
from ._toml import config_of as config_of
from ._toml import merged as merged
from ._toml import read_toml as read_toml
from ._toml import recipe as recipe
from ._toml import recipe_names as recipe_names
from ._toml import to_toml as to_toml
from ._toml import with_overrides as with_overrides
from ._trained_model import TrainedModel as TrainedModel
from ._trained_model import run_config as run_config
from ._trained_model import trained_model as trained_model
from ._trainer import DivergedError as DivergedError

__all__ = [
    "Config",
    "DataSettings",
    "DivergedError",
    "EvaluationSettings",
    "KeepingSettings",
    "MachineSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "OptimizerSettings",
    "Result",
    "SelectionSettings",
    "TrainedModel",
    "ViewSettings",
    "config_of",
    "merged",
    "read_toml",
    "recipe",
    "recipe_names",
    "resume",
    "run_config",
    "to_toml",
    "train",
    "trained_model",
    "with_overrides",
]
