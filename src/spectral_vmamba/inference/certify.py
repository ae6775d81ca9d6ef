"""Check a classifier's invariance on given images, level by level, against what it promises."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.file_changes import RotatedFile, SavedAgain
from spectral_vmamba.data.readers.folder import read_unlabeled_folder
from spectral_vmamba.inference.certificate import LEVELS, Certificate, Check, Level, Promise
from spectral_vmamba.inference.evaluate import BATCH_SIZE, evaluation_images
from spectral_vmamba.inference.output_comparison import ImageChange, OutputComparison
from spectral_vmamba.inference.predictor import Predictor, load
from spectral_vmamba.inference.promises import MEASURED_ANGLE, MEASURED_FILE, network_config, promise_of
from spectral_vmamba.models import without_frame
from spectral_vmamba.ops.turns import FILLS, Fill
from spectral_vmamba.utils.progress import Progress, no_progress

_TURNS = (1, 2, 3)
_PNG = "png"
_FILE_CONDITIONS = {
    _PNG: SavedAgain(),
    "jpeg 90": SavedAgain(jpeg_quality=90),
    "jpeg 75": SavedAgain(jpeg_quality=75),
    "resized −2 %": SavedAgain(scale=0.98),
    "resized +2 %": SavedAgain(scale=1.02),
}


def certify(
    classifier: Predictor | str | Path,
    data: str | ImageDataset | None = None,
    tolerance: float = 1e-5,
    batch_size: int = BATCH_SIZE,
    workers: int = 0,
    progress: Progress = no_progress,
    levels: Sequence[Level] = LEVELS,
    angles: Sequence[float] = (),
    fill: Fill = "black",
    expand: bool = False,
    limit: int | None = None,
    seed: int = 0,
) -> Certificate:
    """Compare the predictions on changed images with those on the original ones, at these levels:

    * `tensor`: quarter turns of the preprocessed images.
    * `no-frame`: the same with the frame switched off, in the network and in the preprocessing. RFN and STS
      stand alone here.
    * `files`: the decoded images turned by quarter turns, then saved again as PNG, saved again as JPEG of quality 90
      and 75, or resized by ±2 %; compared with the files as they are.
    * `angles`, if angles are given: the decoded images rotated by each angle (bicubic), with `fill` in the corners.
      With `expand`, on a larger canvas with black corners, so that nothing is cut off.

    `Certificate.holds` is true if the network promises some of this and keeps every promise. Where a promise holds up
    to rounding, probabilities may change by `tolerance`: single precision rounds every sum at a relative 6e-8. `data`
    defaults to the test images of the run, or its validation images if it has none; a folder may contain unlabeled
    images at any depth. With `limit`, a random sample of that many images is checked.

    >>> from spectral_vmamba import certify
    >>> certify("runs/digits", limit=20).holds
    True
    """
    _check_options(levels, angles, fill, expand, limit)
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier)
    dataset, description = _images(predictor, data)
    comparison = OutputComparison(predictor, _sample(dataset, limit, seed), batch_size, workers, progress)
    checks: list[Check] = []
    if "tensor" in levels:
        checks.append(_check_turns("tensor", comparison, promise_of(predictor, "tensor", tolerance)))
    if "no-frame" in levels:
        bare = replace(comparison, predictor=_without_frame(predictor))
        checks.append(_check_turns("no-frame", bare, promise_of(predictor, "no-frame", tolerance)))
    if "files" in levels:
        checks += _check_files(comparison, promise_of(predictor, "files", tolerance))
    checks += _check_angles(comparison, angles, fill, expand)
    return Certificate(predictor.name, description, len(dataset), tuple(checks), comparison.unreadable)


def _check_turns(level: Level, comparison: OutputComparison, promise: Promise) -> Check:
    return _check(level, "quarter turns", comparison, [ImageChange(quarters=_TURNS)], promise)


def _check_files(comparison: OutputComparison, png_promise: Promise) -> list[Check]:
    checks = []
    for condition, saved in _FILE_CONDITIONS.items():
        changes = [ImageChange(replace(saved, quarters=quarters)) for quarters in _TURNS]
        promise = png_promise if condition == _PNG else MEASURED_FILE
        checks.append(_check("files", condition, comparison, changes, promise))
    return checks


def _check_angles(comparison: OutputComparison, angles: Sequence[float], fill: Fill, expand: bool) -> list[Check]:
    corners = "expanded" if expand else fill
    if fill == "disk" and not expand:  # the original images show the disk only, too
        comparison = replace(comparison, reference=RotatedFile(0.0, fill))
    changes = {f"{angle:g}° {corners}": ImageChange(RotatedFile(angle, fill, expand)) for angle in angles}
    return [_check("angles", name, comparison, [change], MEASURED_ANGLE) for name, change in changes.items()]


def _check(
    level: str, condition: str, comparison: OutputComparison, changes: Sequence[ImageChange], promise: Promise
) -> Check:
    change = comparison.measure(f"{level}, {condition}", changes)
    images = change.images // sum(len(each.quarters) for each in changes)
    return Check(level, condition, promise, images, change.images, change.flips, change.max_change)


def _without_frame(predictor: Predictor) -> Predictor:
    """The same classifier without a frame, in the network and in the preprocessing; weights are shared."""
    config = network_config(predictor)
    model = without_frame(predictor.model) if config is not None and config.frame != "none" else predictor.model
    return replace(predictor, model=model, preprocessing=replace(predictor.preprocessing, frame="none"))


def _images(predictor: Predictor, data: str | ImageDataset | None) -> tuple[ImageDataset, str]:
    """The images and a description. Labels do not matter here, so that a folder may have any structure."""
    if isinstance(data, str) and Path(data).is_dir():
        return read_unlabeled_folder(Path(data)), data
    return evaluation_images(predictor, data)


def _sample(dataset: ImageDataset, limit: int | None, seed: int) -> ImageDataset:
    if limit is None or limit >= len(dataset):
        return dataset
    return dataset.subset(np.sort(np.random.default_rng(seed).choice(len(dataset), limit, replace=False)))


def _check_options(levels: Sequence[str], angles: Sequence[float], fill: str, expand: bool, limit: int | None) -> None:
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not (levels or angles):
        raise ValueError(f"expected levels from {', '.join(LEVELS)}, got {repr(unknown[0]) if unknown else 'none'}")
    if fill not in FILLS:
        raise ValueError(f"expected a fill from {', '.join(FILLS)}, got {fill!r}")
    if expand and fill != "black":
        raise ValueError(f"an expanded canvas has black corners; expected no fill, got {fill!r}")
    if expand and not angles:
        raise ValueError("an expanded canvas needs angles to rotate by: --angles 15 45 --expand")
    if limit is not None and limit < 1:
        raise ValueError(f"expected a limit of at least 1 image, got {limit}")
