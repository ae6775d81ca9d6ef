"""Settings of `embed`."""

import pytest

from spectral_vmamba.retrieval import EmbedConfig


@pytest.mark.parametrize(
    ("wrong", "least"),
    [
        ({"shard_size": 0}, 1),
        ({"batch_size": 0}, 1),
        ({"workers": -1}, 0),
        ({"workers": 0, "engine": "ray"}, 1),
        ({"image_size": 0}, 1),
    ],
)
def test_impossible_settings_are_rejected(wrong, least):
    name, value = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=f"expected {name} of at least {least}, got {value}"):
        EmbedConfig("a", "b", **wrong)
