"""All settings of `embed`."""

from dataclasses import dataclass
from typing import Literal

from spectral_vmamba.utils.devices import Device
from spectral_vmamba.utils.wording import at_least

Format = Literal["parquet", "npy"]


@dataclass(frozen=True)
class EmbedConfig:
    """Settings for embedding the images of one source.

    >>> EmbedConfig(source="photos/", output="photos.vectors").format
    'parquet'
    """

    source: str
    """images: a folder (at any depth), a .txt with one path per line, a .csv of path,label, a .npz pack, `digits`, or
    the name of a dataset: torch/…, hfds/…, wds/SHARDS"""
    output: str
    """output folder for the vectors; an interrupted run resumes in it"""
    checkpoint: str | None = None
    """run of `spectral-vmamba train`, or its checkpoint; defaults to the pretrained network of --model"""
    model: str = "spectral_vmamba_lite"
    """model with a pretrained stem; ignored with a checkpoint"""
    features: Literal["whole", "stem"] = "whole"
    """whole: the whole pretrained network that the stem of --model is cut from; stem: the stem, which --tokens needs;
    ignored with a checkpoint"""
    format: Format = "parquet"
    """parquet: part-00000.parquet, …; npy: vectors.npy and images.csv"""
    tokens: bool = False
    """also store the features of every token and its cell in the image"""
    shard_size: int = 4096
    """images per output file"""
    batch_size: int = 64
    """images read at a time"""
    workers: int | None = None
    """local: processes that read images, defaults to 0; ray: processes that embed, defaults to one per CPU"""
    device: Device = "auto"
    """device of the network: auto (a GPU if there is one), cpu, cuda or mps"""
    image_size: int | None = None
    """image height and width in pixels; defaults to the network's"""
    engine: Literal["local", "ray"] = "local"
    """ray: run on a Ray cluster"""
    overwrite: bool = False
    """replace other embeddings in the output folder"""

    def __post_init__(self):
        at_least(1, shard_size=self.shard_size, batch_size=self.batch_size, image_size=self.image_size)
        at_least(1 if self.engine == "ray" else 0, workers=self.workers)
