"""From stored images to batches of tensors."""

from spectral_vmamba.data.decode import load_image, normalize, resize
from spectral_vmamba.data.photographs import photograph_crops, photographs

__all__ = ["load_image", "normalize", "photograph_crops", "photographs", "resize"]
