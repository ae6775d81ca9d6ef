"""SpectralVMamba and its named variants, registered with timm. The only package that imports timm."""

from spectral_vmamba.models._timm import timm  # isort: skip  (before anything else that imports timm)
from spectral_vmamba.models.local_vim import convert_local_vim
from spectral_vmamba.models.msvmamba import convert_msvmamba
from spectral_vmamba.models.registry import create_model, list_models
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.spectral_vmamba import SpectralVMamba
from spectral_vmamba.models.stem_factory import stem_normalization
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.vim import convert_vim
from spectral_vmamba.models.vmamba import VMamba, VMambaConfig, convert_vmamba

__all__ = [
    "SpectralConfig",
    "SpectralTokenizer",
    "SpectralVMamba",
    "VMamba",
    "VMambaConfig",
    "convert_local_vim",
    "convert_msvmamba",
    "convert_vim",
    "convert_vmamba",
    "create_model",
    "list_models",
    "stem_normalization",
    "timm",
]
