"""Results of a benchmark as files: JSON with the arguments and the machine, and a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from spectral_vmamba.metrics.environment import measure_environment

Result = TypeVar("Result")


_MAY_DIFFER = ("seeds", "rows", "networks", "trainings", "workers")


def read_results(path: Path, arguments: Mapping[str, Any], kind: type[Result]) -> list[Result]:
    """The finished rows of a results.json, none if there is no file.

    Raises ValueError if they were measured with other arguments, except for those that choose rows.
    """
    if not path.exists():
        return []
    report = json.loads(path.read_text())
    stored, given = report["arguments"], json.loads(json.dumps(dict(arguments)))
    differing = [key for key in given if key not in _MAY_DIFFER and stored.get(key) != given[key]]
    if differing:
        changes = ", ".join(f"{key} = {stored.get(key)} (now {given[key]})" for key in differing)
        raise ValueError(f"{path} has results with {changes}; choose another output folder")
    return [kind(**each) for each in report["results"]]


def write_results(path: Path, arguments: Mapping[str, Any], results: Sequence[Any], markdown: str) -> None:
    """Write results.json, of frozen dataclasses, and results.md next to it."""
    report = {"arguments": dict(arguments), "machine": asdict(measure_environment())}
    path.write_text(json.dumps({**report, "results": [asdict(each) for each in results]}, indent=1))
    path.with_name("results.md").write_text(markdown)
