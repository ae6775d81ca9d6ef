"""Measure a segmentation network: IoU, accuracy, boundaries, and how its masks turn with the images."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from spectral_vmamba.data.sources import Part, absolute_path
from spectral_vmamba.data.unreadable import ReadError, summarize_unreadable
from spectral_vmamba.inference.checkpoint import WeightChoice
from spectral_vmamba.metrics.rotation import sweep_angles
from spectral_vmamba.ops.turns import inscribed_disk, rotate_pixels, rotated_positions, sample, turn
from spectral_vmamba.segmentation.mask_loading import MaskedSample, eval_pairs
from spectral_vmamba.segmentation.masked_dataset import MaskedDataset
from spectral_vmamba.segmentation.metrics import BoundaryCounts, MaskScores, count_pixels, mask_scores
from spectral_vmamba.segmentation.readers import read_masked_source, read_masked_split
from spectral_vmamba.segmentation.segmenter import Segmenter, load_segmenter
from spectral_vmamba.utils.progress import Progress, no_progress

SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)  # of the supplement's multi-scale evaluation


@dataclass(frozen=True)
class RotatedMasks:
    """Inside the inscribed disk, which every turn of an image shows: the mean IoU of the masks of images turned by an
    angle, and the share of pixels that have the class that they have upright."""

    angle: float
    mean_iou: float
    agreement: float


@dataclass(frozen=True)
class MaskEvaluation:
    """`multi_scale` are the scores of the mean over scales and mirror images, None if they were not measured."""

    name: str
    data: str
    classes: tuple[str, ...]
    images: int
    scores: MaskScores
    multi_scale: MaskScores | None
    rotations: tuple[RotatedMasks, ...]
    unreadable: tuple[ReadError, ...]
    seconds: float

    @property
    def worst(self) -> RotatedMasks | None:
        return min(self.rotations, key=lambda each: each.mean_iou, default=None)

    @property
    def mean_iou_of_rotations(self) -> float | None:
        return sum(each.mean_iou for each in self.rotations) / len(self.rotations) if self.rotations else None

    @property
    def least_agreement(self) -> float | None:
        return min((each.agreement for each in self.rotations if each.angle), default=None)


def evaluate_segmenter(
    segmenter: Segmenter | str | Path,
    data: str | MaskedDataset | None = None,
    rotations: float | None = None,
    multi_scale: bool = False,
    split: Part | None = None,
    weights: WeightChoice = "best",
    device: str = "auto",
    workers: int = 0,
    progress: Progress = no_progress,
) -> MaskEvaluation:
    """Score a segmentation network on images with masks; by default on the held-out images of its run.

    With `rotations`, images are also turned by 0 to 360° in steps of that many degrees: quarter turns are exact, other
    angles bilinear. The masks of turned images are compared with the labels and with the upright mask, both turned
    alike. `multi_scale` also averages the probabilities over six scales and mirror images.

    >>> from spectral_vmamba import evaluate_segmenter
    >>> evaluation = evaluate_segmenter("runs/tiles", rotations=90)
    >>> evaluation.least_agreement  # quarter turns of an image have the turned mask
    1.0
    """
    if not isinstance(segmenter, Segmenter):
        segmenter = load_segmenter(segmenter, weights, device)
    start = time.monotonic()
    dataset, description = _find_images(segmenter, data, split)
    measurement = _Measurement(segmenter, dataset, sweep_angles(rotations) if rotations is not None else [])
    for each in progress(eval_pairs(dataset, workers), "segmenting", len(dataset)):
        if isinstance(each, ReadError):
            measurement.unreadable.append(each)
        else:
            measurement.add(each, multi_scale)
    if len(measurement.unreadable) == len(dataset):
        raise ValueError(f"no readable image in {description}: {summarize_unreadable(measurement.unreadable)}")
    return measurement.result(description, multi_scale, time.monotonic() - start)


class _Measurement:
    def __init__(self, segmenter: Segmenter, dataset: MaskedDataset, angles: Sequence[float]):
        self.segmenter, self.dataset, self.angles = segmenter, dataset, angles
        classes = len(segmenter.classes)
        self.counts, self.scaled = (torch.zeros(classes, classes, dtype=torch.int64) for _ in range(2))
        self.boundaries, self.scaled_boundaries = (BoundaryCounts.empty(classes) for _ in range(2))
        self.turned = torch.zeros(len(angles), classes, classes, dtype=torch.int64)
        self.agreeing = torch.zeros(len(angles), 2, dtype=torch.int64)
        self.unreadable: list[ReadError] = []

    def add(self, image: MaskedSample, multi_scale: bool) -> None:
        ignored, labels = self.dataset.ignore_index, image.mask
        mask = self.segmenter.mask(image.pixels)
        self.counts += self._count(mask, labels)
        self.boundaries.add(mask.numpy(), labels.numpy(), ignored)
        if multi_scale:
            averaged = average_scales(self.segmenter, image.pixels).argmax(0).to(torch.uint8)
            self.scaled += self._count(averaged, labels)
            self.scaled_boundaries.add(averaged.numpy(), labels.numpy(), ignored)
        for number, angle in enumerate(self.angles):
            pixels = rotate_pixels(image.pixels[None], angle, "black")[0]
            found = self.segmenter.mask(pixels) if angle else mask
            disk = inscribed_disk(found.shape[0], found.shape[1], torch.device("cpu"))
            expected, upright = (rotate_mask(each, angle)[disk] for each in (labels, mask))
            self.turned[number] += self._count(found[disk], expected)
            self.agreeing[number] += torch.tensor([int((found[disk] == upright).sum()), int(disk.sum())])

    def _count(self, predicted: UInt8[Tensor, "*n"], labels: UInt8[Tensor, "*n"]) -> Int[Tensor, "classes classes"]:
        return count_pixels(predicted, labels, len(self.segmenter.classes), self.dataset.ignore_index)

    def result(self, description: str, multi_scale: bool, seconds: float) -> MaskEvaluation:
        return MaskEvaluation(
            self.segmenter.name,
            description,
            self.segmenter.classes,
            len(self.dataset) - len(self.unreadable),
            mask_scores(self.counts, self.boundaries),
            mask_scores(self.scaled, self.scaled_boundaries) if multi_scale else None,
            tuple(
                RotatedMasks(angle, mask_scores(counts).mean_iou, int(agreeing) / max(int(total), 1))
                for angle, counts, (agreeing, total) in zip(self.angles, self.turned, self.agreeing, strict=True)
            ),
            tuple(self.unreadable),
            seconds,
        )


def rotate_mask(mask: UInt8[Tensor, "h w"], angle: float) -> UInt8[Tensor, "h2 w2"]:
    """Rotate a mask as `rotate_pixels` rotates an image, to the nearest pixel; 0 in the corners."""
    if angle % 90 == 0:
        return turn(mask, round(angle / 90) % 4)
    radians = torch.deg2rad(torch.tensor(angle, dtype=torch.float32))
    maps = mask[None, None].float()
    positions = rotated_positions(maps, torch.stack([radians.cos(), radians.sin()])[None])
    return sample(maps, positions, interpolation="nearest")[0, 0].to(torch.uint8)


def average_scales(segmenter: Segmenter, image: Shaped[Tensor, "3 h w"]) -> Float[Tensor, "classes h w"]:
    """The mean of the probabilities over `SCALES` and mirror images."""
    height, width = image.shape[-2:]
    total = torch.zeros(len(segmenter.classes), height, width)
    for scale in SCALES:
        size = (max(round(height * scale), 1), max(round(width * scale), 1))
        scaled = F.interpolate(image[None].float(), size, mode="bilinear", antialias=True)[0].clamp(0, 255)
        both = (segmenter.probabilities(scaled) + segmenter.probabilities(scaled.flip(-1)).flip(-1)) / 2
        total += F.interpolate(both[None], (height, width), mode="bilinear")[0]
    return total / len(SCALES)


def _find_images(
    segmenter: Segmenter, data: str | MaskedDataset | None, part: Part | None
) -> tuple[MaskedDataset, str]:
    """Images with masks of the network's classes, and a description of them."""
    header = segmenter.header
    if isinstance(data, MaskedDataset):
        dataset, description = data, "the given images"
    elif data is None and header is None:
        raise ValueError(f"{segmenter.name} does not come from a training run: specify the data to evaluate it on")
    elif header is not None and (data is None or absolute_path(data) == header.split.data):
        _, val, test = read_masked_split(header.split)
        if part == "test" and test is None:
            raise ValueError(f"the run held out no test images of {header.split.data}; use test_fraction when training")
        dataset = val if test is None or part == "val" else test
        description = f"{'validation' if dataset is val else 'test'} images of {header.split.data}"
    else:
        assert data is not None
        parts = read_masked_source(data)
        if part is not None and part not in parts:
            raise ValueError(f"{data} has no part {part}; it has {', '.join(parts)}")
        dataset, description = next(parts[name] for name in (part, "test", "val", "all") if name in parts), data
    if dataset.classes != segmenter.classes:
        raise ValueError(f"{description} has the classes {dataset.classes}, the network {segmenter.classes}")
    return dataset, description
