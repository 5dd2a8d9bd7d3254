"""Where the official data sets are published, how large they are, and what they sum up to."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Source:
    """One published file.

    Attributes:
        name: What the file is called.
        addresses: Where it is published; the next is tried where one fails.
        size: Its length in bytes.
        checksum: Algorithm and hexadecimal digest, with a colon between them.
    """

    name: str
    addresses: tuple[str, ...]
    size: int
    checksum: str


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A data set published as one archive, which unpacks into one folder.

    Attributes:
        source: The archive itself.
        folder: The folder that it unpacks into.
        unpacked: No more bytes than this may come out.
    """

    source: Source
    folder: str
    unpacked: int


def _cifar(classes: int, size: int, digest: str) -> Source:
    name = f"cifar-{classes}-python.tar.gz"
    places = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")  # the page has moved
    return Source(
        name=name, addresses=tuple(f"{place}/{name}" for place in places), size=size, checksum=f"sha256:{digest}"
    )


CIFAR10 = Archive(
    source=_cifar(10, 170_498_071, "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"),
    folder="cifar-10-batches-py",
    unpacked=200_000_000,
)
CIFAR100 = Archive(
    source=_cifar(100, 169_001_437, "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"),
    folder="cifar-100-python",
    unpacked=200_000_000,
)
TINY_IMAGENET = Archive(
    source=Source(
        name="tiny-imagenet-200.zip",
        addresses=(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
        ),
        size=248_100_043,
        checksum="sha256:6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
    ),
    folder="tiny-imagenet-200",
    unpacked=600_000_000,
)
CIFAR100_C = Archive(
    source=Source(
        name="CIFAR-100-C.tar",
        addresses=("https://zenodo.org/records/3555552/files/CIFAR-100-C.tar",),
        size=2_918_473_216,
        checksum="md5:11f0ed0f1191edbf9fa23466ae6021d3",
    ),
    folder="CIFAR-100-C",
    unpacked=3_100_000_000,
)
TINY_IMAGENET_C = Archive(
    source=Source(
        name="Tiny-ImageNet-C.tar",
        addresses=("https://zenodo.org/records/2536630/files/Tiny-ImageNet-C.tar",),
        size=1_794_775_040,
        checksum="md5:f9c9a9dbdc11469f0b850190f7ad8be1",
    ),
    folder="Tiny-ImageNet-C",
    unpacked=2_500_000_000,
)


def _fashion(name: str, size: int, digest: str) -> Source:
    place = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
    return Source(name=name, addresses=(f"{place}/{name}",), size=size, checksum=f"sha256:{digest}")


FASHION_MNIST = (
    _fashion(
        "train-images-idx3-ubyte.gz",
        26_421_880,
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    ),
    _fashion(
        "train-labels-idx1-ubyte.gz",
        29_515,
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    _fashion(
        "t10k-images-idx3-ubyte.gz",
        4_422_102,
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    _fashion(
        "t10k-labels-idx1-ubyte.gz",
        5_148,
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)
