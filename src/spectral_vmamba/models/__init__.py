"""SpectralVMamba and its named variants, registered with timm. The only package that imports timm."""

from spectral_vmamba.models._timm import timm  # isort: skip  (before anything else that imports timm)
from spectral_vmamba.models.config import SpectralConfig
from spectral_vmamba.models.embedding import SpectralEmbedding
from spectral_vmamba.models.registry import create_model, list_models
from spectral_vmamba.models.spectral_vmamba import SpectralVMamba
from spectral_vmamba.models.stems import stem_normalisation
from spectral_vmamba.models.vmamba import VMamba, VMambaConfig

__all__ = [
    "SpectralConfig",
    "SpectralEmbedding",
    "SpectralVMamba",
    "VMamba",
    "VMambaConfig",
    "create_model",
    "list_models",
    "stem_normalisation",
    "timm",
]
