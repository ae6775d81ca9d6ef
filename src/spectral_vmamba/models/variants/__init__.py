"""The named models, as timm knows them, family by family."""

from spectral_vmamba.models.variants import msvmamba, spectral, vim, vmamba

FAMILIES = {
    "Spectral VMamba": spectral.default_cfgs,
    "VMamba": vmamba.default_cfgs,
    "Vim": {name: cfg for name, cfg in vim.default_cfgs.items() if not name.startswith("local")},
    "LocalVim": {name: cfg for name, cfg in vim.default_cfgs.items() if name.startswith("local")},
    "MSVMamba": msvmamba.default_cfgs,
}

__all__ = ["FAMILIES"]
