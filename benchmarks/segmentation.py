"""Segmentation networks against a U-Net of the same encoder: IoU and agreement of masks, upright and at every angle.

    OMP_NUM_THREADS=1 python -m benchmarks.segmentation wbc_seg_120.npz --output results/cells --seeds 0 1

Every network is trained by the recipe `segment_lite`, with the decoder, crops and epochs of the arguments, on upright
views, on views that are turned by any angle, or by up to 45°. The averaged weights of the last epoch are evaluated on
the test images (the validation images where there are none): no choice depends on them, and only a few images are
validated while training. Upright scores are of all test images, other angles of --rotated-images; so are the pixels
that quarter turns change, of all test images where there is a frame. Finished rows stay in the output folder; run the
same command again to resume. Writes results.json and results.md.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.mask_subsets import write_pairs
from benchmarks.results_files import read_results, write_results
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.segmentation import (
    SegmentConfig,
    evaluate_segmenter,
    fit_segmenter,
    load_segmenter,
    segment_recipe,
)
from spectral_vmamba.segmentation.mask_loading import eval_pairs
from spectral_vmamba.segmentation.masked_dataset import MaskedDataset
from spectral_vmamba.segmentation.readers import read_masked_source
from spectral_vmamba.segmentation.segmenter import Segmenter
from spectral_vmamba.training import TerminalReporter
from spectral_vmamba.utils.progress import Progress, progress_bars

NETWORKS: dict[str, dict[str, Any]] = {
    "spectral lite, quarter": {"model": "spectral_vmamba_lite", "frame": "quarter"},
    "spectral lite, moment": {"model": "spectral_vmamba_lite", "frame": "moment"},
    "spectral lite without RFN, quarter": {
        "model": "spectral_vmamba_lite",
        "frame": "quarter",
        "model_options": {"turns": 1},
    },
    "spectral lite without RFN, moment": {
        "model": "spectral_vmamba_lite",
        "frame": "moment",
        "model_options": {"turns": 1},
    },
    "spectral lite, stem trained, quarter": {
        "model": "spectral_vmamba_lite",
        "frame": "quarter",
        "model_options": {"freeze_stem": False},
    },
    "spectral lite, stem trained, moment": {
        "model": "spectral_vmamba_lite",
        "frame": "moment",
        "model_options": {"freeze_stem": False},
    },
    "spectral lite, stem trained, without RFN, quarter": {
        "model": "spectral_vmamba_lite",
        "frame": "quarter",
        "model_options": {"freeze_stem": False, "turns": 1},
    },
    "spectral lite, stem trained, without RFN, moment": {
        "model": "spectral_vmamba_lite",
        "frame": "moment",
        "model_options": {"freeze_stem": False, "turns": 1},
    },
    "spectral lite, mean of four turns": {"model": "spectral_vmamba_lite", "frame": "none", "turns": 4},
    "spectral nano, quarter": {"model": "spectral_vmamba_nano", "frame": "quarter"},
    "VMamba nano, plain": {"model": "vmamba_nano", "frame": "none"},
    "EfficientNet-Lite0, plain": {"model": "tf_efficientnet_lite0", "frame": "none", "pretrained": True},
    "EfficientNet-Lite0, moment": {"model": "tf_efficientnet_lite0", "frame": "moment", "pretrained": True},
}
TRAININGS: dict[str, dict[str, Any]] = {
    "upright": {"rotation": 0.0, "vflip": 0.0},
    "turned": {"rotation": 180.0, "vflip": 0.5},
    "turned by up to 45°": {"rotation": 45.0, "vflip": 0.5},  # covers the circle with the frame quarter
}
_VALIDATION, _VALIDATION_IMAGES = "validation.npz", 8


@dataclass(frozen=True)
class Result:
    """Shares, 0 to 1. `mean`, `worst` and the agreements are over all angles, inside the disk; `upright_disk` is the
    IoU at 0° there. `changed` is the share of pixels that three quarter turns change, over whole images."""

    network: str
    training: str
    seed: int
    mean_iou: float
    boundary_f1: float
    upright_disk: float
    mean: float
    worst: float
    worst_angle: float
    mean_agreement: float
    least_agreement: float
    changed: float
    seconds: float


def make_config(options: argparse.Namespace, network: str, training: str, seed: int) -> SegmentConfig:
    folder = f"{network}-{training}-{seed}".replace(", ", "-").replace(" ", "_").replace("°", "")
    config = segment_recipe(
        "segment_lite",
        data=options.data,
        val_data=str(Path(options.output) / _VALIDATION),
        decoder=options.decoder,
        decoder_options=json.loads(options.decoder_options),
        size=options.size,
        epochs=options.epochs,
        seed=seed,
        workers=options.workers,
        output=str(Path(options.output) / "runs" / folder),
        tracker="none",
        **NETWORKS[network],
    )
    return replace(config, augment=replace(config.augment, **TRAININGS[training]))


def run_row(options: argparse.Namespace, network: str, training: str, seed: int, console: Console) -> Result:
    start, config = time.monotonic(), make_config(options, network, training, seed)
    fit_segmenter(config, resume=True, reporter=TerminalReporter(console))
    segmenter = load_segmenter(Path(config.output) / "last.safetensors", "ema")
    parts = read_masked_source(options.data)
    dataset = parts.get("test", parts["val"])
    chosen = evenly_spaced(dataset, options.rotated_images)
    with progress_bars(console) as progress:
        whole = evaluate_segmenter(segmenter, dataset, progress=progress)
        evaluation = evaluate_segmenter(segmenter, chosen, options.step, progress=progress)
        changed = changed_by_quarter_turns(segmenter, chosen if config.frame == "none" else dataset, progress)
    agreements = [each.agreement for each in evaluation.rotations if each.angle]
    worst, mean = evaluation.worst, evaluation.mean_iou_of_rotations
    assert worst is not None
    assert mean is not None
    return Result(
        network,
        training,
        seed,
        whole.scores.mean_iou,
        whole.scores.boundary_f1 if whole.scores.boundary_f1 is not None else float("nan"),
        evaluation.rotations[0].mean_iou,
        mean,
        worst.mean_iou,
        worst.angle,
        sum(agreements) / len(agreements),
        min(agreements),
        changed,
        round(time.monotonic() - start, 1),
    )


def evenly_spaced(dataset: MaskedDataset, count: int) -> MaskedDataset:
    """At most `count` images, from the first to the last: neighboring frames of a film are alike."""
    if count >= len(dataset):
        return dataset
    return dataset.subset(np.linspace(0, len(dataset) - 1, count).round().astype(np.int64))


def changed_by_quarter_turns(segmenter: Segmenter, dataset: MaskedDataset, progress: Progress) -> float:
    """The share of all pixels whose class changes when images are turned by 90, 180 and 270°, and masks turned back."""
    changed = pixels = 0
    for each in progress(eval_pairs(dataset, 0), "quarter turns", len(dataset)):
        if isinstance(each, ReadError):
            raise ValueError(each.explanation)
        upright = segmenter.mask(each.pixels)
        for quarters in (1, 2, 3):
            back = turn(segmenter.mask(turn(each.pixels, quarters)), -quarters)
            changed, pixels = changed + int((back != upright).sum()), pixels + upright.numel()
    return changed / pixels


def format_markdown(results: Sequence[Result]) -> str:
    """A table with one row per network and training; the seeds share a cell."""
    lines = [
        "| network | trained | mean IoU | boundary F1 | in the disk: upright | mean of angles | worst angle | "
        "agreement: mean, least | changed by quarter turns |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.network, result.training), []).append(result)
    for names, seeds in rows.items():
        fields = ("mean_iou", "boundary_f1", "upright_disk", "mean", "worst", "mean_agreement", "least_agreement")
        *cells, mean, least = [", ".join(f"{100 * getattr(each, field):.1f}" for each in seeds) for field in fields]
        changed = ", ".join(f"{100 * each.changed:.2f}" if each.changed else "0" for each in seeds)
        lines.append(f"| {' | '.join([*names, *cells])} | {mean}; {least} | {changed} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images with masks, as in `spectral-vmamba segment train --data`")
    parser.add_argument("--output", default="benchmarks/results/segmentation", help="folder for runs and results")
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--trainings", nargs="+", choices=list(TRAININGS), default=["upright", "turned"])
    parser.add_argument("--decoder", default="unet")
    parser.add_argument("--decoder-options", default='{"decoder_channels": [96, 48, 32, 16, 8]}', help="as JSON")
    parser.add_argument("--size", type=int, default=128, help="pixels per side of a training crop")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--step", type=float, default=15.0, help="degrees between the angles of the evaluation")
    parser.add_argument("--rotated-images", type=int, default=1_000_000, help="images of other angles than quarters")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    console, path = Console(), Path(options.output) / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the folders of this machine.
    named = {**{key: value for key, value in vars(options).items() if key != "output"}, "data": Path(options.data).name}
    validation = read_masked_source(options.data).get("val")
    if validation is None:
        raise ValueError(f"expected validation images in {options.data}")
    write_pairs(path.with_name(_VALIDATION), evenly_spaced(validation, _VALIDATION_IMAGES))
    results = read_results(path, named, Result)
    finished = {(result.network, result.training, result.seed) for result in results}
    wanted = [(n, t, s) for s in options.seeds for n in options.networks for t in options.trainings]
    for network, training, seed in (row for row in wanted if row not in finished):
        console.rule(f"{network}, {training}, seed {seed}")
        results.append(run_row(options, network, training, seed, console))
        write_results(path, named, results, format_markdown(results))
        console.print(format_markdown(results[-1:]), highlight=False, soft_wrap=True)
    return results


if __name__ == "__main__":
    main()
