"""The axis annotations are true: jaxtyping checks every call of a forward and backward in a process of its own.

A separate process, because the checking wrapper gets in the way of torch.compile.
"""

import subprocess
import sys

import pytest

SCRIPT = """
from jaxtyping import install_import_hook
with install_import_hook("spectral_vmamba", "beartype.beartype"):
    import spectral_vmamba
    from spectral_vmamba.testing import rotation_gap
import torch
for options in (
    {},
    {"domain": "disk", "turns": 8, "share_directions": True},
    {"merge": "concat", "radius_embedding": True, "frame": "none", "neighbors": None, "solver": "subspace"},
    {"traversal": "random", "turns": 1, "local_mixing": None, "state_size": 2, "solver": "arpack"},
    {"backend": "portable"},
    {"backend": "reference"},
):
    model = spectral_vmamba.create_model("spectral_vmamba_nano", num_classes=3, **options)
    model(torch.randn(2, 3, 32, 24)).sum().backward()
    model.forward_features(torch.randn(2, 3, 24, 32))
    model.forward_intermediates(torch.randn(1, 3, 24, 24))
rotation_gap(model, torch.randn(2, 3, 24, 24), [90.0, 30.0])
try:
    spectral_vmamba.selective_scan(*[torch.zeros(1)] * 8)
except Exception as error:
    assert "jaxtyping" in str(type(error).__module__) + type(error).__name__ + str(error), error
else:
    raise SystemExit("the checker is not on")
print("checked")
"""


@pytest.mark.full
def test_annotations_hold():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout.strip().endswith("checked"), done.stderr[-3000:]
