"""ARPACK proves by an inertia count that it missed no eigenvalue."""

import torch

from spectral_vmamba.ops.spectral import arpack, smallest_eigenpairs
from tests.support.laplacians import disconnected_laplacian


class _AgreesWithEverything:
    def __ne__(self, other):
        return False


def test_the_inertia_count_detects_repeated_values_that_lanczos_misses(monkeypatch):
    """Five equal components: for some seeds Lanczos returns converged pairs that are not the smallest."""
    missed = 0
    for seed in range(12):
        torch.manual_seed(seed)
        laplacian, trivial = disconnected_laplacian(5, 20, identical=True)
        exact = smallest_eigenpairs(laplacian, trivial, 8, "dense").values
        with monkeypatch.context() as patch:
            patch.setattr(arpack, "_eigenvalues_below", lambda sparse, bound: _AgreesWithEverything())
            unguarded = smallest_eigenpairs(laplacian, trivial, 8, "arpack")
        assert float(unguarded.residuals.max()) < 7e-14  # measured: 7.3e-15
        missed += bool((unguarded.values - exact).abs().max() > 1e-6)
        guarded = smallest_eigenpairs(laplacian, trivial, 8, "arpack").values
        torch.testing.assert_close(guarded, exact, rtol=0, atol=5e-14)  # measured: 5.1e-15
    assert missed
