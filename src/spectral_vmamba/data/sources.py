"""From what a person names (a folder, a table, a pack, a data set) to images for training and for validation."""

from pathlib import Path

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.readers.digits import digits
from spectral_vmamba.data.readers.folder import read_folder, read_table
from spectral_vmamba.data.readers.npz import read_pack
from spectral_vmamba.data.readers.timm_datasets import PREFIXES, read_named
from spectral_vmamba.data.readers.webdataset import read_shards
from spectral_vmamba.data.splits import split_fraction


def read_source(source: str) -> dict[str, ImageDataset]:
    """{"train": …, "val": …} where the source has the two, else {"all": …}."""
    if source == "digits":
        return {"all": digits()}
    if source.startswith("wds/"):
        return {"all": read_shards(source.removeprefix("wds/"))}
    if source.startswith(PREFIXES):
        return read_named(source)
    path = Path(source)
    if path.is_dir():
        return read_folder(path)
    if not path.exists():
        raise FileNotFoundError(
            f"no data at {source}; expected a folder of images, a .csv, a .npz, 'digits', or a name that starts with "
            f"{', '.join((*PREFIXES, 'wds/'))}"
        )
    if path.suffix.lower() == ".csv":
        return read_table(path)
    if path.suffix.lower() == ".npz":
        return read_pack(path)
    raise ValueError(f"expected a folder, a .csv or a .npz, got {source}")


def training_data(
    source: str, val: str | None = None, val_fraction: float = 0.2, seed: int = 0
) -> tuple[ImageDataset, ImageDataset]:
    """ImageDataset to train on and to validate on: the source's own two parts, or `val` for the second, or a seeded
    fraction of every class."""
    parts = read_source(source)
    if val is not None:
        train = parts.get("train", parts.get("all"))
        assert train is not None
        return train, validation_data(val).with_classes(train.classes, f"{val} does not fit {source}")
    if "all" in parts:
        return split_fraction(parts["all"], val_fraction, seed)
    return parts["train"], parts["val"]


def validation_data(source: str, val_fraction: float | None = None, seed: int = 0) -> ImageDataset:
    """The part to measure on: the source's own, or the part that training set aside, or all there is."""
    parts = read_source(source)
    if "val" in parts:
        return parts["val"]
    return parts["all"] if val_fraction is None else split_fraction(parts["all"], val_fraction, seed)[1]
