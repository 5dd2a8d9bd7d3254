"""What is learnt from, by what and towards what: frozen records, each of which says what it takes."""

from dataclasses import dataclass
from typing import Literal, get_args

from batchcut._errors import check_choice, check_integer, check_positive
from batchcut.data import check_name

from ._checks import check_optional, check_share

ViewRecipe = Literal["fast", "paper"]
EncoderName = Literal["small-resnet", "resnet18", "mlp", "linear"]
Stem = Literal["cifar", "imagenet"]
Loss = Literal["simclr", "sogclr", "infonce"]


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What to learn from.

    Attributes:
        name: as `batchcut.data.load` takes it: "digits", "cifar100", "folder:PATH", "pairs:FILE" and so on.
        root: the folder with the official files; None: the usual place.
        download: fetch what is missing from the official address.
        train: use the first so many training samples; None: all.
        test: use the first so many test samples; None: all.
    """

    name: str = "digits"
    root: str | None = None
    download: bool = False
    train: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        check_name("data.name", self.name)
        check_optional("data.train", self.train, at_least=4)
        check_optional("data.test", self.test, at_least=2)


@dataclass(frozen=True, kw_only=True)
class ViewSettings:
    """How two views are made of an image; features are taken as they are.

    Attributes:
        recipe: "paper" is the authors' by Kornia (crop, flip, jitter, grey, blur); "fast" is the same but for the blur,
            with all colour changes of an image in one linear map.
        size: height and width of a view; None: those of the image.
        smallest_crop: the least share of the image's area that a crop keeps.
    """

    recipe: ViewRecipe = "fast"
    size: int | None = None
    smallest_crop: float = 0.08

    def __post_init__(self) -> None:
        check_choice("views.recipe", self.recipe, get_args(ViewRecipe))
        check_optional("views.size", self.size, at_least=1)
        check_share("views.smallest_crop", self.smallest_crop)


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What makes an embedding of a sample.

    Attributes:
        encoder: "small-resnet" and "resnet18" for images, "mlp" and "linear" for features.
        stem: how a ResNet-18 begins: "cifar" keeps the resolution, "imagenet" divides it by four.
        width: of the first stage of a small ResNet, or of the hidden layer of an MLP.
        two_towers: one encoder for each side of a pair, as in CLIP; otherwise both sides share one, as in SimCLR.
        projection: the hidden width of the projection head; 0: no head.
        dim: of the embedding.
        zero_init: start with residual branches that add nothing.
    """

    encoder: EncoderName = "small-resnet"
    stem: Stem = "cifar"
    width: int = 32
    two_towers: bool = False
    projection: int = 256
    dim: int = 128
    zero_init: bool = False

    def __post_init__(self) -> None:
        check_choice("model.encoder", self.encoder, get_args(EncoderName))
        check_choice("model.stem", self.stem, get_args(Stem))
        check_integer("model.width", self.width, at_least=1)
        check_integer("model.projection", self.projection, at_least=0)
        check_integer("model.dim", self.dim, at_least=1)


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """What is minimised: SimCLR's loss, SogCLR's, or the two-sided InfoNCE of the paper.

    Attributes:
        loss: which one.
        temperature: τ.
        gamma: of SogCLR: the weight of the new value in the moving average.
    """

    loss: Loss = "simclr"
    temperature: float = 0.1
    gamma: float = 0.9

    def __post_init__(self) -> None:
        check_choice("objective.loss", self.loss, get_args(Loss))
        check_positive("objective.temperature", self.temperature)
        check_share("objective.gamma", self.gamma)
