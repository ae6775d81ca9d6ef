"""Networks under timm's contract, registered with timm by name."""

from spectral_vmamba.models._timm import timm  # isort: skip  (before anything else that imports timm)
from spectral_vmamba.models._builder import Family
from spectral_vmamba.models.framing import without_frame
from spectral_vmamba.models.invariant import InvariantModel
from spectral_vmamba.models.registry import (
    FAMILIES,
    create_model,
    find_family,
    invariant,
    is_cpu_scale,
    is_spectral,
    list_models,
    option_of,
    options_off_default,
)
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.spectral_vmamba import SpectralVMamba
from spectral_vmamba.models.stem_factory import stem_normalization
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.vmamba import VMamba, VMambaConfig

__all__ = [
    "FAMILIES",
    "Family",
    "InvariantModel",
    "SpectralConfig",
    "SpectralTokenizer",
    "SpectralVMamba",
    "VMamba",
    "VMambaConfig",
    "create_model",
    "find_family",
    "invariant",
    "is_cpu_scale",
    "is_spectral",
    "list_models",
    "option_of",
    "options_off_default",
    "stem_normalization",
    "timm",
    "without_frame",
]
