"""Check a classifier's promise on your images: quarter turns change nothing. Exit code 1 if it is broken."""

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console

from spectral_vmamba.cli.progress import bars

_DESCRIPTION = f"""{__doc__}

Every image, as the network sees it, is turned by 90, 180 and 270°. Prints how many predictions flip and the largest
change of a probability. Example: spectral-vmamba certify runs/photos --data photos/"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="a checkpoint, or the folder of a run")
    parser.add_argument("--data", type=str | None, default=None, help="images; those of the run unless given")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="largest change of a probability to allow")
    parser.add_argument("--batch-size", type=int, default=64, help="images at a time")
    parser.add_argument("--workers", type=int, default=0, help="processes that read images")
    parser.add_argument("--device", type=str, default="cpu", help="where to run: cpu, cuda, …")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.inference import certify, load

    console = Console()
    predictor = load(config.checkpoint, device=config.device)
    with bars(console) as progress:
        certificate = certify(predictor, config.data, config.tolerance, config.batch_size, config.workers, progress)
    verdict = "the promise holds" if certificate.holds else "the promise is BROKEN"
    console.print(
        f"{certificate.name}: {certificate.images:,} images, each turned by 90, 180 and 270°\n"
        + (f"{certificate.broken} more could not be read and are left out\n" if certificate.broken else "")
        + f"flipped predictions: {certificate.flips}\n"
        f"largest change of a probability: {certificate.max_change:.3g} (allowed: {certificate.tolerance:g})\n"
        f"{verdict}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return 0 if certificate.holds else 1
