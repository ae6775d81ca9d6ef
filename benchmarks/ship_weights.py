"""Add a trained classifier to the weights that ship with the package.

    python -m benchmarks.ship_weights runs/digits spectral_vmamba_nano.digits --images "handwritten digits" --license …

Stores the averaged weights of the last epoch, which no validation image selected, in half precision if no prediction on
the images that the run held out changes, with the part of the header that is needed to use them, and adds them to the
catalog.
"""

import argparse
import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from spectral_vmamba.inference import evaluate
from spectral_vmamba.inference.checkpoint import LAST_FILE, Checkpoint, load_checkpoint, save_checkpoint
from spectral_vmamba.inference.network import stem_digest
from spectral_vmamba.inference.predictor import make_predictor
from spectral_vmamba.models.shipped_weights import CATALOG_FILE, WEIGHTS_FOLDER, ShippedWeights
from spectral_vmamba.utils.atomic_files import write_text


def ship(run: str, name: str, images: str, license: str, folder: Path = WEIGHTS_FOLDER) -> ShippedWeights:
    """Write the averaged weights of the last epoch of a run, and their entry of the catalog."""
    trained, path = load_checkpoint(Path(run) / LAST_FILE), folder / f"{name}.safetensors"
    write_weights(path, trained, torch.float16)
    changed = count_changed_predictions(trained, load_checkpoint(path))
    print(f"half precision changes {changed} predictions")
    if changed:
        write_weights(path, trained, torch.float32)
    entry = describe(name, load_checkpoint(path), images, license)
    catalog = folder / CATALOG_FILE
    entries = json.loads(catalog.read_text(encoding="utf-8"))
    entries[name] = {key: value for key, value in asdict(entry).items() if key != "name"}
    write_text(catalog, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    return entry


def write_weights(path: Path, trained: Checkpoint, dtype: torch.dtype) -> None:
    """Write a checkpoint of the averaged weights alone, without the names of folders."""

    def convert(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    weights = {key: convert(tensor) for key, tensor in trained.weights("ema").items()}
    rounded = make_predictor(trained, "ema", "cpu").model
    rounded.load_state_dict(weights)
    header = replace(
        trained.header,
        split=replace(trained.header.split, data=Path(trained.header.split.data).name, val_data=None),
        best_weights="ema",
        stem_sha256=stem_digest(rounded),
        fingerprints={},
        training={},
    )
    save_checkpoint(path, {f"ema.{key}": tensor for key, tensor in weights.items()}, header)


def count_changed_predictions(trained: Checkpoint, shipped: Checkpoint) -> int:
    """On the images that the run held out."""
    before = make_predictor(trained, "ema", "cpu")
    after = replace(make_predictor(shipped, "ema", "cpu"), header=trained.header)
    pairs = zip(*(evaluate(predictor, cache=False).predictions for predictor in (before, after)), strict=True)
    return sum(one.predicted != other.predicted for one, other in pairs)


def describe(name: str, shipped: Checkpoint, images: str, license: str) -> ShippedWeights:
    """The entry of the catalog for a checkpoint file."""
    header, preprocessing = shipped.header, shipped.header.preprocessing
    return ShippedWeights(
        name=name,
        images=images,
        license=license,
        classes=header.classes,
        image_size=preprocessing.size,
        mean=preprocessing.mean,
        std=preprocessing.std,
        crop=preprocessing.crop,
        interpolation=preprocessing.interpolation,
        model_options=header.model_options,
        sha256=hashlib.sha256(shipped.path.read_bytes()).hexdigest(),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run folder")
    parser.add_argument("name", help="architecture and tag, as spectral_vmamba_nano.digits")
    parser.add_argument("--images", required=True, help="what the images show, in a few words")
    parser.add_argument("--license", required=True, help="license of the weights, or the terms of the images")
    arguments = parser.parse_args()
    print(ship(arguments.run, arguments.name, arguments.images, arguments.license))
