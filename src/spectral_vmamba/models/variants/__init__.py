"""The named models, as timm knows them, family by family."""

from spectral_vmamba.models.variants import msvmamba, spectral, vim, vmamba

FAMILIES = {
    "Spectral VMamba": spectral.default_cfgs,
    "VMamba": vmamba.default_cfgs,
    "Vim": {name: cfg for name, cfg in vim.default_cfgs.items() if not name.startswith("local")},
    "LocalVim": {name: cfg for name, cfg in vim.default_cfgs.items() if name.startswith("local")},
    "MSVMamba": msvmamba.default_cfgs,
}


def is_cpu_scale(name: str) -> bool:
    """Whether a name of ours stands for a small network for small images, made for comparisons on a CPU."""
    (config,) = (names[name] for names in FAMILIES.values() if name in names)
    return config.default.input_size[-1] < 200


__all__ = ["FAMILIES", "is_cpu_scale"]
