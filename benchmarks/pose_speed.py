"""Images per second of each frame and number of turns, in one run; and the cost of the frame "moment" by itself.

    python -m benchmarks.pose_speed --output pose_speed.json

Measures `spectral_vmamba_lite` on crops of photographs: inference from pixels to probabilities, filling of the feature
cache (frame and stem), and preprocessing of decoded images. The poses take turns, and the best run of each counts. The
cost of the frame is relative to a forward of `spectral_vmamba_nano` without a frame, on images of its default size.
Use one thread (OMP_NUM_THREADS=1) and close other programs.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from benchmarks.suite.timing import compare
from spectral_vmamba.data.decode import normalize, resize
from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.features.fill import FeatureComputer
from spectral_vmamba.inference import Predictor
from spectral_vmamba.inference.network import default_preprocessing
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.models import create_model
from spectral_vmamba.ops.frames import moment_frame, quarter_frame


class PoseOptions(NamedTuple):
    frame: str
    turns: int

    def __str__(self) -> str:
        return f"{self.frame}, {self.turns}"


POSES = [PoseOptions(*each) for each in (("none", 1), ("quarter", 4), ("moment", 1), ("moment", 4), ("moment", 8))]
POSES.append(PoseOptions("upright", 1))
BASELINE = PoseOptions("quarter", 4)
FRAME_BATCHES = {64: 1, 1: 20}  # images of a batch: calls of one run, so that a run is longer than the clock's jitter


def build_predictor(pose: PoseOptions, size: int) -> Predictor:
    torch.manual_seed(0)
    model = create_model("spectral_vmamba_lite", num_classes=10, frame=pose.frame, turns=pose.turns).eval()
    if model.tokenizer.upright is not None:  # how it was fitted does not change the time
        torch.nn.init.normal_(model.tokenizer.upright.weight)
    classes = tuple(map(str, range(10)))
    return Predictor(str(pose), model, classes, default_preprocessing(model, size), torch.device("cpu"))


def measure_poses(count: int, size: int) -> dict[str, dict[str, float]]:
    """{pose: images per second of inference, filling and preprocessing}."""
    pixels = photograph_crops(count, size)
    images = [Image.fromarray(each.permute(1, 2, 0).contiguous().numpy()) for each in pixels]
    predictors = {str(pose): build_predictor(pose, size) for pose in POSES}
    tasks: dict[str, Callable[[Predictor], Callable[[], Any]]] = {
        "inference": lambda predictor: partial(predictor.probabilities, pixels),
        "filling": lambda predictor: partial(_compute_features, predictor, pixels),
        "preprocessing": lambda predictor: partial(_preprocess, predictor, images),
    }
    speeds: dict[str, dict[str, float]] = {name: {} for name in predictors}
    for task, make in tasks.items():
        comparison = compare({name: make(predictor) for name, predictor in predictors.items()}, str(BASELINE))
        for name, timing in comparison.timings.items():
            speeds[name][task] = round(count / timing.seconds, 2)
    return speeds


def _compute_features(predictor: Predictor, pixels: torch.Tensor) -> torch.Tensor:
    tokenizer: Any = predictor.model.tokenizer
    return FeatureComputer(tokenizer, predictor.preprocessing)(pixels)


def _preprocess(predictor: Predictor, images: Sequence[Image.Image]) -> list[torch.Tensor]:
    transform = predictor.preprocessing.eval_transform()
    return [transform(image).pixels for image in images]


def measure_frame_cost(batch: int, calls: int) -> dict[str, float]:
    """Seconds of a forward of the nano model without a frame, and of the frames, as shares of it."""
    torch.manual_seed(0)
    model = create_model("spectral_vmamba_nano", num_classes=10, frame="none").eval()
    config = model.pretrained_cfg
    images = normalize(resize(photograph_crops(batch, 224), config["input_size"][-1]), config["mean"], config["std"])

    def repeat(function: Callable[[torch.Tensor], Any]) -> None:
        with torch.inference_mode():
            for _ in range(calls):
                function(images)

    competitors = {"forward": model, "moment": moment_frame, "quarter": quarter_frame}
    timings = compare({name: partial(repeat, each) for name, each in competitors.items()}, "forward").timings
    forward = timings["forward"].seconds
    shares = {name: round(timings[name].seconds / forward, 4) for name in ("moment", "quarter")}
    return {"forward seconds": round(forward / calls, 5), **shares}


def format_markdown(speeds: dict[str, dict[str, float]]) -> str:
    """Images per second and, in parentheses, the ratio to the baseline."""
    tasks, baseline = list(speeds[str(BASELINE)]), speeds[str(BASELINE)]
    lines = [f"| frame, turns | {' | '.join(tasks)} |", "|---|" + "---|" * len(tasks)]
    for name, each in speeds.items():
        cells = [f"{each[task]:.1f} ({each[task] / baseline[task]:.2f})" for task in tasks]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=32, help="images of a batch")
    parser.add_argument("--size", type=int, default=128, help="pixels per side")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    speeds = measure_poses(options.images, options.size)
    print(format_markdown(speeds))
    costs = {str(batch): measure_frame_cost(batch, calls) for batch, calls in FRAME_BATCHES.items()}
    for batch, cost in costs.items():
        shares = " and ".join(f"{name} {100 * cost[name]:.1f} %" for name in ("moment", "quarter"))
        print(f"share of a forward of spectral_vmamba_nano, batch {batch}: {shares}")
    environment = measure_environment()
    words = (Path(word).name for word in (sys.argv[1:] if arguments is None else arguments))
    report = {
        "about": {
            "command": " ".join(["python -m benchmarks.pose_speed", *words]),
            "date": time.strftime("%Y-%m-%d"),
            "machine": environment.machine,
            "threads": torch.get_num_threads(),
            "versions": {"spectral_vmamba": environment.version, "torch": torch.__version__},
        },
        "images per second": speeds,
        "share of a forward of spectral_vmamba_nano, by batch": costs,
    }
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    return report


if __name__ == "__main__":
    main()
