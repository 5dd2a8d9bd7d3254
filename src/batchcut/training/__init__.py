"""Training: from images or pairs of features to an encoder, by batches that teach most."""

from ._config import Config as Config
from ._config import EvaluationSettings as EvaluationSettings
from ._config import KeepingSettings as KeepingSettings
from ._config import MachineSettings as MachineSettings
from ._config import OptimiserSettings as OptimiserSettings
from ._config import SelectionSettings as SelectionSettings
from ._recipes import recipe as recipe
from ._recipes import recipe_names as recipe_names
from ._settings import DataSettings as DataSettings
from ._settings import ModelSettings as ModelSettings
from ._settings import ObjectiveSettings as ObjectiveSettings
from ._settings import ViewSettings as ViewSettings
from ._toml import config_of as config_of
from ._toml import merged as merged
from ._toml import read_toml as read_toml
from ._toml import to_toml as to_toml
from ._toml import with_overrides as with_overrides
from ._train import Result as Result
from ._train import resume as resume
from ._train import train as train
from ._trained import TrainedModel as TrainedModel
from ._trained import run_config as run_config
from ._trained import trained_model as trained_model
from ._trainer import DivergedError as DivergedError
