"""Segmentation networks against a U-Net of the same encoder: IoU and agreement of masks, upright and at every angle.

    OMP_NUM_THREADS=1 python -m benchmarks.segmentation wbc_seg_120.npz --output results/cells --seeds 0 1

Every network is trained by the recipe `segment_lite`, with the decoder, crops and epochs of the arguments, in two ways:
on upright views, and on views that are turned by any angle. The averaged weights of the last epoch are evaluated on the
test images (the validation images where there are none): no choice depends on them. Finished rows stay in the output
folder; run the same command again to resume. Writes results.json and results.md.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.results_files import read_results, write_results
from spectral_vmamba.segmentation import (
    SegmentConfig,
    evaluate_segmenter,
    fit_segmenter,
    load_segmenter,
    segment_recipe,
)
from spectral_vmamba.segmentation.readers import read_masked_source
from spectral_vmamba.training import TerminalReporter
from spectral_vmamba.utils.progress import progress_bars

NETWORKS: dict[str, dict[str, Any]] = {
    "spectral lite, moment": {"model": "spectral_vmamba_lite", "frame": "moment"},
    "spectral lite, quarter": {"model": "spectral_vmamba_lite", "frame": "quarter"},
    "spectral lite, four turns": {"model": "spectral_vmamba_lite", "frame": "none", "turns": 4},
    "spectral nano, quarter": {"model": "spectral_vmamba_nano", "frame": "quarter"},
    "VMamba nano, plain": {"model": "vmamba_nano", "frame": "none"},
    "EfficientNet-Lite0, plain": {"model": "tf_efficientnet_lite0", "frame": "none", "pretrained": True},
    "EfficientNet-Lite0, moment": {"model": "tf_efficientnet_lite0", "frame": "moment", "pretrained": True},
}
TRAININGS: dict[str, dict[str, Any]] = {
    "upright": {"rotation": 0.0, "vflip": 0.0},
    "turned": {"rotation": 180.0, "vflip": 0.5},
}


@dataclass(frozen=True)
class Result:
    """Shares, 0 to 1. `mean`, `worst` and the agreements are over all angles, inside the disk; `upright_disk` is the
    IoU at 0° there."""

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
    seconds: float


def make_config(options: argparse.Namespace, network: str, training: str, seed: int) -> SegmentConfig:
    folder = f"{network}-{training}-{seed}".replace(", ", "-").replace(" ", "_")
    config = segment_recipe(
        "segment_lite",
        data=options.data,
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
    dataset = parts.get("test", parts.get("val"))
    if dataset is None:
        raise ValueError(f"expected test or validation images in {options.data}")
    with progress_bars(console) as progress:
        evaluation = evaluate_segmenter(segmenter, dataset, options.step, progress=progress)
    agreements = [each.agreement for each in evaluation.rotations if each.angle]
    worst, mean = evaluation.worst, evaluation.mean_iou_of_rotations
    assert worst is not None
    assert mean is not None
    return Result(
        network,
        training,
        seed,
        evaluation.scores.mean_iou,
        evaluation.scores.boundary_f1 if evaluation.scores.boundary_f1 is not None else float("nan"),
        evaluation.rotations[0].mean_iou,
        mean,
        worst.mean_iou,
        worst.angle,
        sum(agreements) / len(agreements),
        min(agreements),
        round(time.monotonic() - start, 1),
    )


def format_markdown(results: Sequence[Result]) -> str:
    """A table with one row per network and training; the seeds share a cell."""
    lines = [
        "| network | trained | mean IoU | boundary F1 | in the disk: upright | mean of angles | worst angle | "
        "agreement: mean, least |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.network, result.training), []).append(result)
    for names, seeds in rows.items():
        fields = ("mean_iou", "boundary_f1", "upright_disk", "mean", "worst", "mean_agreement", "least_agreement")
        *cells, mean, least = [", ".join(f"{100 * getattr(each, field):.1f}" for each in seeds) for field in fields]
        lines.append(f"| {' | '.join([*names, *cells])} | {mean}; {least} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images with masks, as in `spectral-vmamba segment train --data`")
    parser.add_argument("--output", default="benchmarks/results/segmentation", help="folder for runs and results")
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--trainings", nargs="+", choices=list(TRAININGS), default=list(TRAININGS))
    parser.add_argument("--decoder", default="unet")
    parser.add_argument("--decoder-options", default='{"decoder_channels": [128, 64, 32, 32, 16]}', help="as JSON")
    parser.add_argument("--size", type=int, default=128, help="pixels per side of a training crop")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--step", type=float, default=15.0, help="degrees between the angles of the evaluation")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    console, path = Console(), Path(options.output) / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the folders of this machine.
    named = {**{key: value for key, value in vars(options).items() if key != "output"}, "data": Path(options.data).name}
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
