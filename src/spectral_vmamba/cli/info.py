"""Show versions, the machine, and the backends: which there are, and why one is missing."""

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.table import Table

from spectral_vmamba.metrics.environment import measure_environment


def parser() -> ArgumentParser:
    return ArgumentParser(description=__doc__)


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
    console.print("`spectral-vmamba models` lists the models.", highlight=False)
    return 0
