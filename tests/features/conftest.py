"""What tests of the feature cache share."""

import pytest

from spectral_vmamba.data.sources import training_data
from tests.support.caches import crops_pack, small_lite


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return crops_pack(tmp_path_factory.mktemp("crops"))


@pytest.fixture(scope="module")
def images(pack):
    return training_data(str(pack))[0]


@pytest.fixture(scope="module")
def model():
    return small_lite()
