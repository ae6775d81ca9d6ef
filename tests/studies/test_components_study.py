"""Disconnected graphs: their number, and the stability of their orders under every rule on one stem."""

import pytest
import torch

from spectral_vmamba.studies.components_study import _RULES, _measure_stability, count_pieces
from tests.support.models import build


def tokenizer_with(rule, **options):
    return build("spectral_vmamba_nano", frame="none", components=rule, **options).eval().tokenizer


@pytest.fixture(scope="module")
def images():
    """Noise, in half of the images with a square of another brightness: two pieces."""
    images = 0.05 * torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    images[:4, :, 8:24, 8:24] += 20
    return images


def test_images_of_two_parts_have_two_pieces(images):
    with torch.no_grad():
        counts = count_pieces(tokenizer_with("bridged"), images)
    assert (counts[:4] > 1).all()
    found = _measure_stability(tokenizer_with("bridged"), images, 0)
    assert found["disconnected"] == int((counts > 1).sum())
    assert found["pieces"] == counts[counts > 1].double().mean()


def test_every_rule_is_measured_on_the_stem_of_the_network(images):
    """The result is the same, whichever rule the network itself has."""
    found = [_measure_stability(tokenizer_with(rule), images, 0) for rule in _RULES.values()]
    assert found[0] == found[1] == found[2]
    turned = found[0]["correlation_turned"]
    assert turned.keys() == _RULES.keys()
    assert len(set(turned.values())) == len(_RULES)  # each rule has orders of its own


def test_connected_graphs_have_nothing_to_compare(images):
    found = _measure_stability(tokenizer_with("bridged", neighbors="none"), images, 0)
    assert (found["disconnected"], found["pieces"], found["correlation_turned"]) == (0, None, None)
