"""Plot when each patch of an image is visited along each eigenvector, upright and rotated."""

from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.data import load_image, resize
from spectral_vmamba.metrics.traversal_gap import TraversalPair, measure_traversal, summarize_steps
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer, stem_normalization
from spectral_vmamba.utils.progress import progress_bars

_DESCRIPTION = f"""{__doc__}

Writes one PNG with two rows per image: VMamba's scans above the eigenvectors, the rotated image on the right. The frame
is off: RFN and STS see different pixels on the two sides. Prints how well the visiting orders of the rotated image
match those of the upright image: how many steps visit the same patch (multiples of 90° only), and the rank correlation
per eigenvector.

Examples:
  spectral-vmamba traversal photo.jpg --angle 90 --output photo_traversal.png
  spectral-vmamba traversal photo.jpg --angle 30 --domain disk --neighbors 0"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("images", nargs="+", metavar="IMAGE", type=str, help="image files")
    parser.add_argument("--angle", type=float, default=90.0, help="rotation in degrees, counterclockwise")
    parser.add_argument("--output", type=str, default="traversal.png", help="plot to write")
    parser.add_argument("--size", type=int, default=224, help="length of the short side after resizing, in pixels")
    parser.add_argument(
        "--stem",
        type=str,
        default="timm:tf_efficientnet_lite0",
        help="stem that computes the patch features: conv or timm:NAME",
    )
    parser.add_argument(
        "--stem-weights",
        type=str,
        default="auto",
        help="auto (pretrained if available), or a .safetensors or .pth file",
    )
    parser.add_argument("--patch-size", type=int, default=16, help="side of a patch in pixels")
    parser.add_argument("--eigenvectors", type=int, default=4, help="number of eigenvectors to follow")
    parser.add_argument(
        "--neighbors", type=int, default=5, help="nearest neighbors of a patch in the graph; 0 connects all patches"
    )
    parser.add_argument(
        "--domain", choices=["square", "disk"], default="square", help="use all patches, or those in the inscribed disk"
    )
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.plots.traversal_plots import plot_traversals

    console, output = Console(), Path(config.output)
    if config.size < 1:
        raise ValueError(f"expected --size of at least 1 pixel, got {config.size}")
    if not output.parent.is_dir():
        raise ValueError(f"cannot write {output}: no folder {output.parent}")
    tokenizer = SpectralTokenizer(
        SpectralConfig(
            stem=config.stem,
            stem_weights=config.stem_weights,
            patch_size=config.patch_size,
            eigenvectors=config.eigenvectors,
            neighbors=config.neighbors or None,
            domain=config.domain,
            frame="none",
        )
    )
    mean, std = stem_normalization(config.stem)
    pairs = []
    with progress_bars(console) as progress:
        for path in progress(config.images, "traversals", len(config.images)):
            image = resize(load_image(path)[None], config.size)[0]
            pairs.append(measure_traversal(tokenizer, image, config.angle, mean, std, Path(path).stem))
    for pair in pairs:
        print_line(console, _describe(pair))
    plot_traversals(pairs).savefig(output, dpi=110)
    print_line(console, f"wrote {output}")
    return 0


def _describe(pair: TraversalPair) -> str:
    correlations = ", ".join(f"{value:.3f}" for value in pair.spectral.correlations)
    steps, cross_steps = (summarize_steps([orders]) for orders in (pair.spectral, pair.cross_scan))
    counts = f"{steps} (VMamba's cross-scan: {cross_steps}), " if steps else ""
    return f"{pair.title}, rotated by {pair.angle:g}°: {counts}rank correlation per eigenvector {correlations}"
