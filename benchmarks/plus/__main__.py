"""Train candidates from scratch in short runs, and measure them on images that are not the test images.

    python -m benchmarks.plus cifar10_train.npz --output plus --candidates nano "stem 32+64, depth 1" --seeds 0 1

Training images are mirrored, shifted by up to 2 pixels and rotated by up to 45°: with quarter turns exact, that covers
the circle. Finished rows of OUTPUT/results.json are kept.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.plus.candidates import CANDIDATES, build
from benchmarks.results_files import read_results, write_results
from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.data.subsets import choose_images
from spectral_vmamba.ops.turns import rotate, rotate_each
from spectral_vmamba.studies.row_tables import markdown, percent

MEAN, STD = 0.47, 0.25
ANGLES = (0, 20, 45, 90)
BATCH = 64
SHIFT = 2  # pixels


@dataclass(frozen=True)
class Row:
    """Shares of right answers, 0 to 1, at each of `ANGLES`."""

    candidate: str
    seed: int
    parameters: int
    accuracy: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Images:
    pixels: Float[Tensor, "n 3 h w"]
    labels: Int[Tensor, "n"]


def load_images(path: str, size: int, train: int, validation: int) -> tuple[Images, Images]:
    """Two disjoint random parts of the training images of a pack."""
    dataset = DataSplit(path, None, 0.2, 0).read().train
    chosen = choose_images(dataset, train + validation)
    shuffled = np.random.default_rng(0).permutation(chosen)
    return _open(dataset, shuffled[:train], size), _open(dataset, shuffled[train:], size)


def _open(dataset: ImageDataset, indices: Int[np.ndarray, "n"], size: int) -> Images:
    images = [dataset.open(int(i)).convert("RGB").resize((size, size)) for i in indices]
    pixels = torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).float() / 255
    return Images(pixels, torch.from_numpy(np.asarray(dataset.labels)[indices]).long())


def augment(pixels: Float[Tensor, "b 3 h w"], degrees: float) -> Float[Tensor, "b 3 h w"]:
    count, side = pixels.shape[0], pixels.shape[-1]
    mirrored = torch.rand(count, 1, 1, 1) < 0.5
    pixels = torch.where(mirrored, pixels.flip(-1), pixels)
    y, x = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
    pixels = F.pad(pixels, (SHIFT,) * 4, mode="reflect")[..., y : y + side, x : x + side]
    if not degrees:
        return pixels
    radians = torch.deg2rad((torch.rand(count) * 2 - 1) * degrees)
    return rotate_each(pixels, torch.stack([radians.cos(), radians.sin()], dim=1))


def train(model: nn.Module, images: Images, epochs: int, degrees: float, lr: float) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.05)
    steps = epochs * (len(images.labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, lr, total_steps=steps, pct_start=0.1, cycle_momentum=False, div_factor=100, final_div_factor=100
    )
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(images.labels)).split(BATCH)[: steps // epochs]:
            inputs = (augment(images.pixels[batch], degrees) - MEAN) / STD
            loss = F.cross_entropy(model(inputs), images.labels[batch], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()


@torch.no_grad()
def measure(model: nn.Module, images: Images) -> tuple[float, ...]:
    model.eval()

    def accuracy(angle: int) -> float:
        rotated = rotate(images.pixels, float(angle))
        answers = torch.cat([model((part - MEAN) / STD).argmax(1) for part in rotated.split(250)])
        return (answers == images.labels).float().mean().item()

    return tuple(accuracy(angle) for angle in ANGLES)


def summarize(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.candidate for row in rows))
    cells = []
    for name in names:
        own = [row for row in rows if row.candidate == name]
        angles = [percent([row.accuracy[i] for row in own]) for i in range(len(ANGLES))]
        cells.append((name, f"{own[0].parameters:,}", *angles, f"{len(own)}"))
    return markdown(("candidate", "parameters", *(f"{angle}°" for angle in ANGLES), "seeds"), cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="pack of images")
    parser.add_argument("--output", required=True, help="folder for results.json and results.md")
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES), choices=CANDIDATES, metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--train", type=int, default=5000, help="training images")
    parser.add_argument("--validation", type=int, default=2000, help="other images of the training part")
    parser.add_argument("--size", type=int, default=32, help="pixels per side")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--degrees", type=float, default=45, help="largest rotation of a training image")
    parser.add_argument("--lr", type=float, default=2e-3)
    given = parser.parse_args()
    folder = Path(given.output)
    folder.mkdir(parents=True, exist_ok=True)
    path, names = folder / "results.json", ("train", "validation", "size", "epochs", "degrees", "lr", "seeds")
    arguments = {"data": Path(given.data).name, **{name: getattr(given, name) for name in names}}
    rows = [Row(**{**asdict(row), "accuracy": tuple(row.accuracy)}) for row in read_results(path, arguments, Row)]
    training, validation = load_images(given.data, given.size, given.train, given.validation)
    for seed in given.seeds:
        for name in given.candidates:
            if any((row.candidate, row.seed) == (name, seed) for row in rows):
                continue
            start = time.monotonic()
            torch.manual_seed(seed)
            model = build(name, int(training.labels.max()) + 1)
            train(model, training, given.epochs, given.degrees, given.lr)
            count = sum(parameter.numel() for parameter in model.parameters())
            rows.append(Row(name, seed, count, measure(model, validation), round(time.monotonic() - start, 1)))
            print(rows[-1], flush=True)
            write_results(path, arguments, rows, summarize(rows))


if __name__ == "__main__":
    main()
