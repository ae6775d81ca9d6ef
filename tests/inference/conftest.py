"""Trained classifiers that the tests of this folder share."""

import pytest

from spectral_vmamba.inference import load
from spectral_vmamba.training import SilentReporter, fit
from tests.support.runs import digits_config

VMAMBA = {"widths": (8, 16), "depths": (1, 1)}


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A Spectral VMamba trained on a few digits."""
    return fit(digits_config(tmp_path_factory.mktemp("run"), epochs=4), reporter=SilentReporter())


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory):
    """A VMamba, which is not invariant to quarter turns."""
    config = digits_config(tmp_path_factory.mktemp("plain"), model="vmamba_nano", model_options=VMAMBA, epochs=4)
    return fit(config, reporter=SilentReporter())


@pytest.fixture(scope="session")
def framed_run(tmp_path_factory):
    """A VMamba with a canonical frame, which alone makes it invariant to quarter turns."""
    options = {**VMAMBA, "frame": "quarter"}
    config = digits_config(tmp_path_factory.mktemp("framed"), model="vmamba_nano", model_options=options, epochs=4)
    return fit(config, reporter=SilentReporter())


@pytest.fixture(scope="session")
def predictor(run):
    return load(run.folder)
