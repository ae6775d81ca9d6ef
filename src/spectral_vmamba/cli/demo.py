"""Show the method on real photographs (from scikit-image and scikit-learn) and measure what turning them does."""

from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.progress import track
from rich.table import Table

from spectral_vmamba.analysis import measure_traversal, plot_rotation, plot_traversals
from spectral_vmamba.cli.traversal import describe
from spectral_vmamba.data import normalise, photograph_crops, photographs, resize
from spectral_vmamba.models import SpectralConfig, SpectralEmbedding, create_model, stem_normalisation
from spectral_vmamba.testing import RotationGap, activate_scan, rotation_gap

_PICTURES = ("coffee", "immunohistochemistry", "retina", "rocket")
_SIZE = 64


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=str, default="demo", help="folder for the pictures")
    parser.add_argument("--crops", type=int, default=24, help="crops of photographs the rotation gap is measured on")
    parser.add_argument("--step", type=int, default=15, help="degrees between the measured turns")
    parser.add_argument("--seed", type=int, default=0, help="of the crops and of the untrained weights")
    return parser


def run(config: Namespace) -> int:
    if config.crops < 1 or config.step < 1:
        raise ValueError(f"expected at least one crop and a step of at least 1°, got {config.crops} and {config.step}")
    console = Console()
    folder = Path(config.output)
    folder.mkdir(parents=True, exist_ok=True)
    _draw_traversals(folder, console)
    _measure_gap(folder, config, console)
    return 0


def _draw_traversals(folder: Path, console: Console) -> None:
    stem = "timm:tf_efficientnet_lite0"
    embedding = SpectralEmbedding(SpectralConfig(stem=stem))
    mean, std = stem_normalisation(stem)
    pictures = photographs()
    for angle, name in ((90.0, "traversal_90.png"), (30.0, "traversal_30.png")):
        pairs = []
        for title in track(_PICTURES, f"traversals at {angle:g}°", console=console, transient=True):
            picture = resize(pictures[title][None], 224)[0]
            pairs.append(measure_traversal(embedding, picture, angle, mean, std, title))
        for pair in pairs:
            console.print(describe(pair), markup=False, highlight=False)
        _save(plot_traversals(pairs), folder / name, console)


def _measure_gap(folder: Path, config: Namespace, console: Console) -> None:
    crops = resize(photograph_crops(config.crops, 224, config.seed), _SIZE)
    gaps = {}
    for name, model in _models(config.seed).items():
        images = normalise(crops, model.pretrained_cfg["mean"], model.pretrained_cfg["std"])
        angles = sorted({*range(config.step, 360, config.step), 90, 180, 270})
        progress = lambda angles, name=name: list(track(angles, name, console=console, transient=True))  # noqa: E731
        gaps[name] = rotation_gap(model, images, angles, progress=progress)
    console.print(_table(gaps, config.crops), highlight=False)
    console.print(
        "Flips: changed top-1 labels. |Δ|: change of the logits in units of their standard deviation.\n"
        "Weights are untrained, scans active (see spectral_vmamba.testing): this shows the architecture, not accuracy.",
        highlight=False,
    )
    subtitle = f"untrained networks, {config.crops} crops of photographs at {_SIZE} px, seed {config.seed}"
    _save(plot_rotation(gaps, subtitle), folder / "rotation_gap.png", console)


def _models(seed: int) -> dict[str, Any]:
    made = {}
    for label, name, options in (
        ("Spectral VMamba nano", "spectral_vmamba_nano", {}),
        ("Spectral VMamba nano, disk", "spectral_vmamba_nano", {"domain": "disk", "neighbors": None}),
        ("same, random orders, no RFN", "spectral_vmamba_nano", _PLAIN),
        ("ResNet-18 (timm)", "resnet18", {}),
    ):
        torch.manual_seed(seed)
        made[label] = activate_scan(create_model(name, num_classes=100, **options))
    return made


_PLAIN = {"traversal": "random", "rotations": None, "canonical_frame": False}


def _table(gaps: dict[str, list[RotationGap]], crops: int) -> Table:
    table = Table(title=f"What turning {crops} crops of photographs changes", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("label flips at\n90/180/270°", "largest |Δ|\nat these", "mean |Δ| at\nother angles"):
        table.add_column(heading)
    for name, points in gaps.items():
        quarter = [gap for gap in points if gap.angle % 90 == 0]
        others = [gap.mean_difference for gap in points if gap.angle % 90]
        flips = "/".join(str(gap.flips) for gap in quarter)
        elsewhere = f"{sum(others) / len(others):.3f}" if others else "not measured"
        table.add_row(name, flips, f"{max(gap.max_difference for gap in quarter):.2g}", elsewhere)
    return table


def _save(figure, path: Path, console: Console) -> None:
    figure.savefig(path, dpi=110)
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
