"""Compare tensors relative to their largest value."""

from torch import Tensor


def assert_relatively_close(actual: Tensor, expected: Tensor, tolerance: float, name: str = "result") -> None:
    """Allow differences of `tolerance` times the largest expected value."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if expected.numel():
        difference, largest = float((actual - expected).detach().abs().max()), float(expected.detach().abs().max())
        assert difference <= tolerance * largest, (
            f"{name} differs by {difference:.2e}, its largest value is {largest:.2e}"
        )
