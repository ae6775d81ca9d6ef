"""How far the frame "moment" follows a turn, and how far other changes of an image move it.

    python -m benchmarks.frame_errors aid_128.npz imagenette_128.npz --output results/frame_errors.json

Every image is changed, and the direction of its brightness centroid is compared with that of the image as it is: after
a rotation, with that direction rotated. Errors are in degrees; 90 would be chance.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.perturbations import PERTURBATIONS, Images
from spectral_vmamba.data.dataset import UNLABELED, ImageDataset
from spectral_vmamba.data.decode import image_to_tensor
from spectral_vmamba.data.loader import eval_batches
from spectral_vmamba.data.readers.npz import PackedFiles
from spectral_vmamba.data.readers.pack_arrays import open_pack
from spectral_vmamba.data.sources import read_evaluation_part
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.ops.frames import brightness_direction
from spectral_vmamba.ops.turns import rotate_each

_ANGLES_SEED, _NOISE_SEED = 0, 1


def read_pixels(source: str, count: int, size: int) -> Images:
    """The center squares of some test images, or for size 0 whole images of one size, as pixel values 0 to 255."""
    dataset = read_test_images(source)
    chosen = np.sort(np.random.default_rng(0).choice(len(dataset), min(count, len(dataset)), replace=False))
    if not size:
        return torch.stack([image_to_tensor(dataset.open(int(i))) for i in chosen]).float()
    transform = Preprocessing(size, (0.5,) * 3, (0.5,) * 3).eval_transform()
    return torch.cat([batch.inputs for batch in eval_batches(dataset.subset(chosen), transform, 64, 0)]).float()


def read_test_images(source: str) -> ImageDataset:
    """The test images of a source. Packs without labels, such as those for segmentation: all images."""
    if Path(source).suffix == ".npz":
        with open_pack(Path(source)) as pack:
            if "label" not in pack.names and {"data", "offset"} <= pack.names:
                storage = PackedFiles(pack.map("data"), pack.read("offset").astype(np.int64))
                names = [f"{pack.path.stem}#{i}" for i in range(len(storage.offset) - 1)]
                return ImageDataset((), np.full(len(names), UNLABELED), names, names, storage)
    return read_evaluation_part(source, None)


def changes(images: Images) -> Iterator[tuple[str, Images, Float[Tensor, "n"] | float]]:
    """Yield (name, changed images, angles by which they were rotated)."""
    angles = 360 * torch.rand(len(images), generator=torch.Generator().manual_seed(_ANGLES_SEED))
    radians = torch.deg2rad(angles)
    rotation = torch.stack([torch.cos(radians), torch.sin(radians)], dim=1)
    yield "random turn, bilinear", rotate_each(images, rotation), angles
    yield "random turn, bicubic", rotate_each(images, rotation, interpolation="bicubic").clamp(0, 255), angles
    for name, perturbation in PERTURBATIONS.items():
        yield name, perturbation(images, torch.Generator().manual_seed(_NOISE_SEED)), 0.0


def measure(images: Images) -> dict[str, dict[str, float]]:
    """Median, 95th percentile and share above 20° of the error of each change."""
    before, results = _degrees(images), {}
    for name, changed, angles in changes(images):
        errors = ((_degrees(changed) - before - angles + 180) % 360 - 180).abs()
        results[name] = {
            "median": float(errors.median()),
            "p95": float(errors.quantile(0.95)),
            "above_20": float((errors > 20).double().mean()),
        }
    return results


def format_markdown(results: dict[str, dict[str, dict[str, float]]]) -> str:
    names = list(next(iter(results.values())))
    lines = [f"| change | {' | '.join(results)} |", "|---|" + "---|" * len(results)]
    for name in names:
        cells = [f"{each[name]['median']:.2f} / {each[name]['p95']:.1f}" for each in results.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _degrees(images: Images) -> Float[Tensor, "n"]:
    right, up = brightness_direction(images).double().unbind(1)
    return torch.rad2deg(torch.atan2(up, right))


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, dict[str, float]]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument("--images", type=int, default=500, help="images of each source")
    parser.add_argument("--size", type=int, default=128, help="pixels per side; 0: images as they are")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    results = {Path(source).stem: measure(read_pixels(source, options.images, options.size)) for source in options.data}
    print(format_markdown(results))
    if options.output:
        words = (Path(word).name for word in (sys.argv[1:] if arguments is None else arguments))
        about = {"command": " ".join(["python -m benchmarks.frame_errors", *words]), "date": time.strftime("%Y-%m-%d")}
        report = {**about, "machine": asdict(measure_environment()), "results": results}
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    return results


if __name__ == "__main__":
    main()
