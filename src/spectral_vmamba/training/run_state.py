"""How far a run is: what a checkpoint tells beside the tensors."""

from dataclasses import asdict, dataclass, field
from typing import Any

from spectral_vmamba.training.reporting import EpochReport


@dataclass
class RunState:
    """`losses` is the sum over the steps of the epoch at hand; `best` the report of the best epoch, with `weights` (ema
    or raw), their accuracy `top1` and their loss, which decides between equal ones."""

    step: int = 0
    losses: float = 0.0
    history: list[EpochReport] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "RunState":
        history = [EpochReport(**report) for report in stored["history"]]
        return cls(stored["step"], stored["losses"], history, stored["best"])

    def take(self, report: EpochReport) -> bool:
        """Note the end of an epoch; whether it was the best so far."""
        self.losses = 0.0
        self.history.append(report)
        weights, top1, loss = report.better()
        if self.best and (top1, -loss) <= (self.best["top1"], -self.best["top1_loss"]):
            return False
        self.best = {**asdict(report), "weights": weights, "top1": top1, "top1_loss": loss}
        return True

    def epochs_without_progress(self) -> int:
        return len(self.history) - self.best["epoch"] if self.best else 0
