"""The named models, as timm knows them, family by family."""

from spectral_vmamba.models.variants import spectral, vmamba

FAMILIES = {"Spectral VMamba": spectral.default_cfgs, "VMamba": vmamba.default_cfgs}

__all__ = ["FAMILIES"]
