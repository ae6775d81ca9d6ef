"""Show versions, backends (and why one is missing), and the models with their parameters and FLOPs."""

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.progress import track
from rich.table import Table

from spectral_vmamba.analysis import measure_cost, measure_environment
from spectral_vmamba.models import list_models


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--num-classes", type=int, default=100, help="classes that parameters and FLOPs are counted for"
    )
    return parser


def run(config: Namespace) -> int:
    console = Console()
    environment = measure_environment()
    facts = Table.grid(padding=(0, 2))
    facts.add_row("spectral-vmamba", environment.version)
    facts.add_row("python", f"{environment.python} on {environment.machine}, {environment.threads} threads")
    facts.add_row("accelerator", environment.accelerator)
    for name, version in environment.packages.items():
        facts.add_row(name, version)
    console.print(facts, highlight=False)

    backends = Table("selective-scan backend", "state", title_justify="left")
    for name, state in environment.backends.items():
        backends.add_row(name, state)
    console.print(backends, highlight=False)
    console.print(f"eigensolvers: {', '.join(environment.solvers)}\n", highlight=False)

    models = Table()
    models.add_column("model", no_wrap=True)
    for heading in ("input", "trainable", "frozen", "GFLOPs", "stem once"):
        models.add_column(heading, justify="right")
    for name in track(list_models(), "counting", console=console, transient=True):
        cost = measure_cost(name, num_classes=config.num_classes)
        size = "×".join(str(side) for side in cost.input_size)
        parameters = (f"{cost.trainable_parameters:,}", f"{cost.frozen_parameters:,}")
        models.add_row(name, size, *parameters, f"{cost.gflops:.3f}", f"{cost.gflops_stem_once:.3f}")
    console.print(models, highlight=False)
    console.print(
        f"at {config.num_classes} classes; multiply-adds, 5 per normalised element, 9·l·d·n + l·d per scanned path.\n"
        "RFN runs the stem once for every rotation: the first count has all passes, the second one, as the paper does.",
        highlight=False,
    )
    return 0
