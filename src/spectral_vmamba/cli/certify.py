"""Check on your images that quarter turns do not change a classifier's predictions."""

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.utils.progress import progress_bars

_DESCRIPTION = f"""{__doc__}

Rotates every preprocessed image by 90, 180 and 270°. Prints the number of flipped predictions and the largest change of
a probability. The exit code is 0 if the classifier passes and 1 if it does not.

Examples:
  spectral-vmamba certify runs/photos
  spectral-vmamba certify runs/photos --data new-photos/"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="run folder or checkpoint file")
    parser.add_argument(
        "--data", type=str | None, default=None, help="images, with or without labels; defaults to those of the run"
    )
    parser.add_argument("--tolerance", type=float, default=1e-5, help="largest change of a probability to accept")
    parser.add_argument("--batch-size", type=int, default=64, help="images per batch")
    parser.add_argument("--workers", type=int, default=0, help="processes that read images")
    parser.add_argument("--device", type=str, default="cpu", help="device to run on: cpu, cuda, …")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.inference import certify, load

    console = Console()
    predictor = load(config.checkpoint, device=config.device)
    with progress_bars(console) as progress:
        certificate = certify(predictor, config.data, config.tolerance, config.batch_size, config.workers, progress)
    print_line(console, f"{certificate.name}: {certificate.images:,} images, each rotated by 90, 180 and 270°")
    if certificate.unreadable:
        print_line(console, f"{len(certificate.unreadable)} unreadable images were skipped")
    print_line(
        console,
        f"flipped predictions: {certificate.flips}\n"
        f"largest change of a probability: {certificate.max_change:.3g} (tolerance: {certificate.tolerance:g})\n"
        f"{'passed:' if certificate.holds else 'FAILED: not'} invariant to quarter turns",
    )
    return 0 if certificate.holds else 1
