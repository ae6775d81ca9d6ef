"""Draw when each patch of a image is visited along each eigenvector, as it is and turned, side by side."""

from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.progress import track

from spectral_vmamba.data import load_image, resize
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer, stem_normalization
from spectral_vmamba.plots.traversal_plots import TraversalPair, measure_traversal, plot_traversals

_DESCRIPTION = f"{__doc__} Example: spectral-vmamba traversal photo.jpg --angle 90 -o photo_traversal.png"


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("images", nargs="+", metavar="IMAGE", type=str, help="image files")
    parser.add_argument("--angle", type=float, default=90.0, help="how far to turn, counterclockwise degrees")
    parser.add_argument("-o", "--output", type=str, default="traversal.png", help="the image to write")
    parser.add_argument("--size", type=int, default=224, help="short side the images are scaled to, pixels")
    parser.add_argument("--stem", type=str, default="timm:tf_efficientnet_lite0", help="'conv' or 'timm:NAME'")
    parser.add_argument("--stem-weights", type=str, default="auto", help="'auto', or a .safetensors or .pth file")
    parser.add_argument("--patch-size", type=int, default=16, help="pixels a token is wide")
    parser.add_argument("--eigenvectors", type=int, default=4, help="eigenvectors to follow")
    parser.add_argument("--neighbors", type=int, default=5, help="nearest neighbors in the graph; 0 joins all patches")
    parser.add_argument("--domain", choices=["square", "disk"], default="square", help="patches that take part")
    return parser


def run(config: Namespace) -> int:
    console = Console()
    if config.size < 1:
        raise ValueError(f"expected a size of at least one pixel, got {config.size}")
    output = Path(config.output)
    if not output.parent.is_dir():
        raise ValueError(f"cannot write {output}: there is no folder {output.parent}")
    tokenizer = SpectralTokenizer(
        SpectralConfig(
            stem=config.stem,
            stem_weights=config.stem_weights,
            patch_size=config.patch_size,
            eigenvectors=config.eigenvectors,
            neighbors=config.neighbors or None,
            domain=config.domain,
        )
    )
    mean, std = stem_normalization(config.stem)
    pairs = []
    for path in track(config.images, "traversing", console=console, transient=True):
        image = resize(load_image(path)[None], config.size)[0]
        pairs.append(measure_traversal(tokenizer, image, config.angle, mean, std, Path(path).stem))
    for pair in pairs:
        console.print(describe(pair), markup=False, highlight=False)
    plot_traversals(pairs).savefig(output, dpi=110)
    console.print(f"wrote {output}", markup=False, highlight=False, soft_wrap=True)
    return 0


def describe(pair: TraversalPair) -> str:
    correlations = ", ".join(f"{value:.3f}" for value in pair.correlations)
    share = "" if pair.unchanged is None else f"{pair.unchanged:.2%} of the visiting steps unchanged, "
    return f"{pair.title}, turned {pair.angle:g}°: {share}rank correlation per eigenvector {correlations}"
