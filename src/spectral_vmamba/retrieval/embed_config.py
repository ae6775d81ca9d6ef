"""Everything that `embed` is decided by."""

from dataclasses import dataclass
from typing import Literal

Format = Literal["parquet", "npy"]


@dataclass(frozen=True)
class EmbedConfig:
    """One collection of images, embedded."""

    source: str
    """images: a folder (at any depth), a .txt with a path a line, a .csv of path,label, a .npz pack, `digits`, or a
    data set's name: torch/…, hfds/…, wds/SHARDS"""
    output: str
    """folder for the vectors; a run that was stopped goes on in it"""
    checkpoint: str | None = None
    """a run of `spectral-vmamba train`, or its checkpoint; without one, the pretrained stem of --model speaks alone"""
    model: str = "spectral_vmamba_lite"
    """a network with a pretrained stem, where no checkpoint is given"""
    format: Format = "parquet"
    """parquet: part-00000.parquet, …; npy: vectors.npy and images.csv"""
    tokens: bool = False
    """also keep the features of every token and its cell in the image"""
    shard_size: int = 4096
    """images a file; what a run that goes on may have to compute again"""
    batch_size: int = 64
    """images read at a time"""
    workers: int | None = None
    """local: processes that read images (0 unless given); ray: processes that embed (one a CPU unless given)"""
    device: str = "cpu"
    """where to run: cpu, cuda, …"""
    image_size: int | None = None
    """pixels a side that the network sees; its own unless given"""
    engine: Literal["local", "ray"] = "local"
    """ray: over the machines of a Ray cluster"""
    overwrite: bool = False
    """begin anew in an output folder that holds other embeddings"""

    def __post_init__(self):
        for name in ("shard_size", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.workers is not None and self.workers < (1 if self.engine == "ray" else 0):
            raise ValueError(f"expected workers of at least {int(self.engine == 'ray')}, got {self.workers}")
        if self.image_size is not None and self.image_size < 1:
            raise ValueError(f"expected image_size of at least 1, got {self.image_size}")
