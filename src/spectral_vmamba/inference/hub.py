"""Save a network as a folder that timm, transformers and the Hugging Face hub can load, and load such folders."""

import json
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from timm.models import save_for_hf
from timm.models._hub import download_from_hf
from torch import nn

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import check_classes
from spectral_vmamba.inference.network import default_preprocessing
from spectral_vmamba.inference.predictor import Predictor, load
from spectral_vmamba.models import create_model
from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.invariant import InvariantModel
from spectral_vmamba.models.recorded_options import CFG_KEY
from spectral_vmamba.models.shipped_weights import find_weights
from spectral_vmamba.utils.devices import resolve_device
from spectral_vmamba.utils.settings import from_dict

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
_PREPROCESSING = "preprocessing"  # our entry of config.json: what timm's configuration has no words for, and the rest
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def save_for_hub(model: Predictor | nn.Module, folder: str | Path, classes: Sequence[str] | None = None) -> Path:
    """Write config.json and model.safetensors, from which `timm.create_model("local-dir:FOLDER", pretrained=True)`
    rebuilds the network with all its options.

    A predictor, as `load` returns it, brings its classes and its preprocessing. Uploaded as a model repository, the
    folder loads as "hf-hub:OWNER/NAME" in the same way. `from_pretrained` makes a predictor of either. Returns the
    folder.

    >>> import spectral_vmamba
    >>> import timm
    >>> model = spectral_vmamba.create_model("spectral_vmamba_nano", num_classes=2, turns=8, domain="disk")
    >>> folder = save_for_hub(model, "hub/cats", ["cat", "dog"])
    >>> again = timm.create_model(f"local-dir:{folder}", pretrained=True)
    >>> again.config.turns, again.config.domain, again.pretrained_cfg["label_names"]
    (8, 'disk', ['cat', 'dog'])
    """
    network: Any = model.model if isinstance(model, Predictor) else model
    preprocessing = model.preprocessing if isinstance(model, Predictor) else None
    if isinstance(network, InvariantModel):
        raise ValueError(
            "timm cannot rebuild a network of its own with a frame or turned copies; save the network inside, "
            "model.model, or the checkpoint"
        )
    if classes is None and isinstance(model, Predictor):
        classes = model.classes
    if classes is not None and len(classes) != network.num_classes:
        raise ValueError(f"expected {network.num_classes} classes, one per output of the network, got {len(classes)}")
    described = copy(network)  # shares the weights
    described.pretrained_cfg = _pretrained_cfg(network, preprocessing)
    save_for_hf(
        described,
        str(folder),
        model_config=_model_config(classes, preprocessing),
        model_args=_model_args(network),
        safe_serialization=True,
    )
    return Path(folder)


def from_pretrained(source: str | Path, classes: Sequence[str] | None = None, device: str = "auto") -> Predictor:
    """Load a classifier from a folder of `save_for_hub` or of timm's `save_for_hf`, from a model repository of the
    Hugging Face hub ("OWNER/NAME"), or by the name of weights that ship with the package.

    The options of the network, the preprocessing and the classes come with it; `classes` names those of a folder
    without names. Nothing in the folder is run, and only its safetensors file is read.

    >>> import spectral_vmamba
    >>> model = spectral_vmamba.create_model("spectral_vmamba_nano", num_classes=2, frame="moment")
    >>> predictor = from_pretrained(spectral_vmamba.save_for_hub(model, "hub/dogs", ["cat", "dog"]))
    >>> predictor.classes, predictor.preprocessing.frame
    (('cat', 'dog'), 'moment')
    """
    folder = Path(source)
    if folder.is_dir():
        missing = next((name for name in (CONFIG_FILE, WEIGHTS_FILE) if not (folder / name).is_file()), None)
        if missing:
            raise FileNotFoundError(f"{folder} has no {missing}; expected a folder that save_for_hub has written")
        return _load_folder(f"local-dir:{folder}", folder / CONFIG_FILE, classes, device)
    if find_weights(str(source)):
        return load(source, device=device)
    if not _HUB_NAME.fullmatch(str(source)):
        raise FileNotFoundError(f"no folder {source}; expected one, or OWNER/NAME of a model on the hub")
    try:
        config = download_from_hf(str(source), CONFIG_FILE)
    except Exception as error:  # huggingface_hub has errors of many kinds
        raise OSError(f"there is no folder {source}, and the hub does not give it: {error}") from error
    return _load_folder(f"hf-hub:{source}", Path(config), classes, device)


def _load_folder(name: str, config_file: Path, classes: Sequence[str] | None, device: str) -> Predictor:
    resolved, config = resolve_device(device), _read_config(config_file)
    try:
        model = create_model(name, pretrained=True)
    except (RuntimeError, SafetensorError, TypeError, KeyError) as error:
        raise ValueError(f"{name} cannot be loaded: its weights are damaged or of another network: {error}") from error
    labels = tuple(classes or model.pretrained_cfg.get("label_names") or ())
    if len(labels) != model.num_classes:
        named = f"names {len(labels)} classes" if labels else "names no classes"
        raise ValueError(f"{name} {named}, but has {model.num_classes} outputs; pass classes=[…]")
    check_classes(labels)
    try:
        stored = config.get(_PREPROCESSING)
        preprocessing = from_dict(Preprocessing, stored) if stored else default_preprocessing(model)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{config_file} has a preprocessing that cannot be read: {error}") from error
    return Predictor(config["architecture"], model.to(resolved).eval(), labels, preprocessing, resolved)


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("architecture"), str):
        raise ValueError(f"{path} does not name the architecture of a network")
    return config


def _model_config(classes: Sequence[str] | None, preprocessing: Preprocessing | None) -> dict[str, Any]:
    """What config.json has besides timm's configuration."""
    labels = {"label_names": list(classes)} if classes is not None else {}
    return {**labels, **({_PREPROCESSING: asdict(preprocessing)} if preprocessing else {})}


def _pretrained_cfg(network: Any, preprocessing: Preprocessing | None) -> dict[str, Any]:
    cfg = dict(network.pretrained_cfg)
    if preprocessing is None:
        return cfg
    size = (preprocessing.size, preprocessing.size)
    if isinstance(network, Classifier):
        cfg["pool_size"] = network.cfg_entries(network.config, size)["pool_size"]
    return {
        **cfg,
        "input_size": (cfg["input_size"][0], *size),
        "mean": preprocessing.mean,
        "std": preprocessing.std,
        "crop_pct": preprocessing.crop,
        "interpolation": preprocessing.interpolation,
    }


def _model_args(network: Any) -> dict[str, Any]:
    """The keywords of `timm.create_model` that rebuild the network."""
    if not isinstance(network, Classifier):
        return {}
    arguments = dict(network.pretrained_cfg[CFG_KEY])
    if network.global_pool != network.pools[0]:
        arguments["global_pool"] = network.global_pool
    if getattr(network.config, "stem", "conv") != "conv":
        arguments["stem_weights"] = "required"  # those of the folder, or pretrained ones; never random ones
    return arguments
