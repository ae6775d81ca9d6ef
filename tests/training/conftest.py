"""Data and a finished run that the tests of this folder share."""

import pytest

from spectral_vmamba.training import SilentReporter, fit
from tests.support.caches import write_crops
from tests.support.runs import digits_config


@pytest.fixture(scope="session")
def pack(tmp_path_factory):
    """48 crops of photographs for training, 16 for validation."""
    return write_crops(tmp_path_factory.mktemp("crops"))


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A run of eight epochs on a few digits."""
    return fit(digits_config(tmp_path_factory.mktemp("run"), epochs=8, batch_size=32), reporter=SilentReporter())
