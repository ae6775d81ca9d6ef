"""The result of `certify`: how far each change of the images moved the outputs, and what the network promises."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from spectral_vmamba.data.unreadable import ReadError

Level = Literal["tensor", "no-frame", "files"]
LEVELS: tuple[Level, ...] = get_args(Level)
COLUMNS = ("level", "condition", "images", "flips", "agreement", "largest |Δp|", "promised", "result")


@dataclass(frozen=True)
class Promise:
    """The largest change of a probability that a network promises, None if it promises nothing; and why."""

    tolerance: float | None
    reason: str

    def summarize(self) -> str:
        if self.tolerance is None:
            return "no"
        return "same bits" if self.tolerance == 0 else f"|Δp| ≤ {self.tolerance:g}"


@dataclass(frozen=True)
class Check:
    """Outputs on changed images compared with those on the original images, under one condition.

    `level` is one of `LEVELS` or "angles". A flip is a changed prediction; `max_change` is the largest change of a
    probability. `images` are compared `comparisons` times, for example once for each of three turns.
    """

    level: str
    condition: str
    promise: Promise
    images: int
    comparisons: int
    flips: int
    max_change: float

    @property
    def agreement(self) -> float:
        """Share of comparisons in which the prediction stayed the same."""
        return 1 - self.flips / max(self.comparisons, 1)

    @property
    def is_promised(self) -> bool:
        return self.promise.tolerance is not None

    @property
    def holds(self) -> bool:
        """Whether the network promises this condition and keeps the promise."""
        tolerance = self.promise.tolerance
        return tolerance is not None and self.images > 0 and self.flips == 0 and self.max_change <= tolerance

    @property
    def verdict(self) -> Literal["passed", "FAILED", "measured"]:
        if not self.is_promised:
            return "measured"
        return "passed" if self.holds else "FAILED"

    def cells(self) -> tuple[str, ...]:
        """The row of a table under `COLUMNS`."""
        return (
            self.level,
            self.condition,
            f"{self.images:,}",
            f"{self.flips:,} of {self.comparisons:,}",
            f"{self.agreement:.2%}",
            f"{self.max_change:.2g}",
            self.promise.summarize(),
            self.verdict,
        )


@dataclass(frozen=True)
class Certificate:
    """All checks of one classifier on one set of images.

    `data` describes the images, of which there are `dataset_size`. `images`, `flips` and `max_change` are those of the
    level `tensor`.
    """

    name: str
    data: str
    dataset_size: int
    checks: tuple[Check, ...]
    unreadable: list[ReadError] = field(default_factory=list)

    @property
    def promised(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.is_promised)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.promised if not check.holds)

    @property
    def holds(self) -> bool:
        """Whether the classifier promises any of the checked conditions, and keeps every promise."""
        return bool(self.promised) and not self.failed

    @property
    def images(self) -> int:
        return self._tensor.images

    @property
    def flips(self) -> int:
        return self._tensor.flips

    @property
    def max_change(self) -> float:
        return self._tensor.max_change

    @property
    def _tensor(self) -> Check:
        for check in self.checks:
            if check.level == "tensor":
                return check
        raise ValueError("the level tensor was not checked; see `checks`, or add it to the levels")

    def describe_images(self) -> str:
        checked = self.checks[0].images if self.checks else 0
        unreadable = f"; {len(self.unreadable):,} could not be read" if self.unreadable else ""
        return f"checked {checked:,} of {self.dataset_size:,} images: {self.data}{unreadable}"

    def describe_promises(self) -> list[str]:
        """Return one line per promise: what it covers, how exact it is, and why."""
        covered: dict[Promise, dict[str, list[str]]] = {}
        for check in self.checks:
            covered.setdefault(check.promise, {}).setdefault(check.level, []).append(check.condition)
        lines = []
        for promise, levels in covered.items():
            scope = "; ".join(f"{level} ({', '.join(conditions)})" for level, conditions in levels.items())
            kind = "measured, not promised" if promise.tolerance is None else f"promised, {promise.summarize()}"
            lines.append(f"{scope}: {kind}. {promise.reason}")
        return lines

    def summarize(self) -> str:
        """Return the verdict as one line."""
        if not self.promised:
            return "nothing to certify: this network promises no level; measured: " + ", ".join(
                f"{check.flips:,} flips at {check.level} ({check.condition})" for check in self.checks
            )
        kept = len(self.promised) - len(self.failed)
        counts = f"{kept} of {len(self.promised)} promised conditions hold"
        if not self.failed:
            return f"passed: {counts}"
        return f"FAILED: {counts}; not {', not '.join(f'{check.level} ({check.condition})' for check in self.failed)}"

    def to_json_dict(self) -> dict[str, Any]:
        checks = [{**asdict(check), "agreement": check.agreement, "verdict": check.verdict} for check in self.checks]
        return {
            "name": self.name,
            "data": self.data,
            "dataset_size": self.dataset_size,
            "verdict": self.summarize(),
            "holds": self.holds,
            "checks": checks,
            "unreadable": [asdict(error) for error in self.unreadable],
        }
