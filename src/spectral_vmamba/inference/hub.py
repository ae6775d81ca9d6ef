"""Save a network as a folder that timm, transformers and the Hugging Face hub can load."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

from timm.models import save_for_hf
from torch import nn

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.predictor import Predictor
from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.invariant import InvariantModel
from spectral_vmamba.models.recorded_options import CFG_KEY


def save_for_hub(model: Predictor | nn.Module, folder: str | Path, classes: Sequence[str] | None = None) -> Path:
    """Write config.json and model.safetensors, from which `timm.create_model("local-dir:FOLDER", pretrained=True)`
    rebuilds the network with all its options.

    A predictor, as `load` returns it, brings its classes and its preprocessing. Uploaded as a model repository, the
    folder loads as "hf-hub:OWNER/NAME" in the same way. Returns the folder.

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
        model_config={"label_names": list(classes)} if classes is not None else {},
        model_args=_model_args(network),
        safe_serialization=True,
    )
    return Path(folder)


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
