"""Check on your images that a classifier keeps its promise: quarter turns do not change its predictions."""

import json
import shlex
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import folding_table, print_line, print_table
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.inference.certificate import COLUMNS, LEVELS, Certificate
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.ops.turns import FILLS
from spectral_vmamba.utils.atomic_files import prepare_folder, write_text
from spectral_vmamba.utils.progress import progress_bars

_DESCRIPTION = f"""{__doc__}

Compares the predictions on changed images with those on the images as they are, at up to four levels:
  tensor    quarter turns of the preprocessed images
  no-frame  the same with the frame switched off: RFN and STS alone
  files     the original images turned by 90, 180 and 270°, then saved again as PNG or JPEG (quality 90 and 75), or
            resized by 2 %% (at least one pixel)
  angles    with --angles: the original images rotated by other angles

Prints which levels the network promises and why, and for each condition the flipped predictions, the agreement and the
largest change of a probability (|Δp|). JPEG, resizing and other angles are measured, not promised. The exit code is 1
if a promise is broken, or if the network promises nothing. With --output, also writes certificate.json and
certificate.html, one page to print.

Examples:
  spectral-vmamba certify runs/photos
  spectral-vmamba certify runs/photos --data new-photos/ --limit 200 --output certificate
  spectral-vmamba certify runs/photos --levels tensor no-frame --angles 15 45""".replace("%%", "%")


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="run folder or checkpoint file")
    parser.add_argument(
        "--data", type=str | None, default=None, help="images, with or without labels; defaults to those of the run"
    )
    parser.add_argument("--levels", nargs="+", choices=list(LEVELS), default=list(LEVELS), help="levels to check")
    parser.add_argument("--angles", nargs="+", type=float, default=[], help="other angles to measure, in degrees")
    parser.add_argument("--fill", choices=list(FILLS), default="black", help="corners of images rotated by --angles")
    parser.add_argument(
        "--expand", action="store_true", help="rotate by --angles on a larger canvas, as photo editors do"
    )
    parser.add_argument("--limit", type=int | None, default=None, help="check a random sample of so many images")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument(
        "--tolerance", type=float, default=1e-5, help="change of a probability to accept where sums are rounded"
    )
    parser.add_argument("--batch-size", type=int, default=64, help="images per batch")
    parser.add_argument("--workers", type=int, default=0, help="processes that read images")
    parser.add_argument("--device")
    parser.add_argument("--output", type=str | None, default=None, help="folder for certificate.json and .html")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.inference import certify, load

    console = Console()
    if config.output:
        prepare_folder(Path(config.output), "the certificate")
    predictor = load(config.checkpoint, device=config.device)
    with progress_bars(console) as progress:
        certificate = certify(
            predictor,
            config.data,
            config.tolerance,
            config.batch_size,
            config.workers,
            progress,
            config.levels,
            config.angles,
            config.fill,
            config.expand,
            config.limit,
            config.seed,
        )
    _print(console, certificate)
    if config.output:
        _write(Path(config.output), certificate, _provenance(config))
        print_line(console, f"wrote {Path(config.output) / 'certificate.html'} and certificate.json")
    return 0 if certificate.holds else 1


def _print(console: Console, certificate: Certificate) -> None:
    print_line(console, f"{certificate.name}: {certificate.describe_images()}")
    for line in certificate.describe_promises():
        print_line(console, line)
    table = folding_table(*COLUMNS)
    for check in certificate.checks:
        table.add_row(*check.cells())
    print_table(table)
    print_line(console, certificate.summarize())


def _write(folder: Path, certificate: Certificate, provenance: dict[str, str]) -> None:
    from spectral_vmamba.plots.certificate_page import format_certificate

    content = {"certificate": certificate.to_json_dict(), "provenance": provenance}
    write_text(folder / "certificate.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_text(folder / "certificate.html", format_certificate(certificate, provenance))


def _provenance(config: Namespace) -> dict[str, str]:
    """Facts that let others repeat the check."""
    from spectral_vmamba.inference.checkpoint import find_checkpoint

    path, environment = find_checkpoint(config.checkpoint), measure_environment()
    with path.open("rb") as stream:
        sha256 = file_digest(stream, "sha256").hexdigest()
    packages = ", ".join(f"{name} {environment.packages[name]}" for name in ("torch", "timm", "numpy"))
    return {
        "checkpoint": str(path),
        "checkpoint SHA-256": sha256,
        "command": _command(config),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{environment.machine}, threads: {environment.threads}, device: {config.device}",
        "versions": f"spectral-vmamba {environment.version}, Python {environment.python}, {packages}",
    }


def _command(config: Namespace) -> str:
    words = ["spectral-vmamba", "certify", config.checkpoint]
    for name in ("data", "levels", "angles", "fill", "limit", "seed", "tolerance", "batch_size", "device"):
        value = config[name]
        if value not in (None, []):
            values = value if isinstance(value, list) else [value]
            words += [
                f"--{name.replace('_', '-')}",
                *(f"{each:g}" if isinstance(each, float) else str(each) for each in values),
            ]
    if config.expand:
        words.append("--expand")
    return shlex.join(words)
