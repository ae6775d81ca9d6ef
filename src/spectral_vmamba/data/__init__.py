"""Images in, plain tensors out."""

from spectral_vmamba.data.images import load_image, normalise, resize
from spectral_vmamba.data.photographs import photograph_crops, photographs

__all__ = ["load_image", "normalise", "photograph_crops", "photographs", "resize"]
