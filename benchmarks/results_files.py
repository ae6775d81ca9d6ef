"""Results of a benchmark as files: JSON with the arguments and the machine, and a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spectral_vmamba.metrics.environment import measure_environment


def write_results(path: Path, arguments: Mapping[str, Any], results: Sequence[Any], markdown: str) -> None:
    """Write results.json, of frozen dataclasses, and results.md next to it."""
    report = {"arguments": dict(arguments), "machine": asdict(measure_environment())}
    path.write_text(json.dumps({**report, "results": [asdict(each) for each in results]}, indent=1))
    path.with_name("results.md").write_text(markdown)
