"""Embed on a Ray cluster: one row of a Ray dataset is one shard.

A worker writes its shard atomically, and computes it again only if it is missing: whichever worker dies, no image is
lost or duplicated. All machines must see the output folder, and the images that are files.
"""

import logging
import os
from dataclasses import replace
from typing import Any

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.retrieval.embed import embed_shards
from spectral_vmamba.retrieval.embed_config import EmbedConfig
from spectral_vmamba.retrieval.encoder import build_encoder
from spectral_vmamba.retrieval.store import EmbeddingStore, StoreMetadata
from spectral_vmamba.utils.devices import resolve_device
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.progress import Progress
from spectral_vmamba.utils.wording import plural

_RETRIES = 3  # of a shard whose worker died: an image that kills every worker must not do so forever


def embed_on_ray(
    store: EmbeddingStore, dataset: ImageDataset, config: EmbedConfig, numbers: list[int], progress: Progress
) -> None:
    """Compute and write the shards with these numbers."""
    require("ray.data", "ray")
    ray = require("ray", "ray")
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    context = ray.data.DataContext.get_current()
    bars_enabled = context.enable_progress_bars
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # it warns that its own bars are off
    workers = min(config.workers or int(ray.cluster_resources().get("CPU", 1)), len(numbers))
    shared_dataset = ray.put(dataset)  # referenced until the end: restarted workers ask for it
    try:
        shards = ray.data.from_items([{"shard": number} for number in numbers], override_num_blocks=len(numbers))
        done = shards.map_batches(
            ShardWriter,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
            fn_constructor_args=(
                str(store.path.absolute()),
                store.metadata,
                replace(config, workers=0, engine="local"),
                shared_dataset,
            ),
            num_cpus=1,
            num_gpus=1 if resolve_device(config.device).type == "cuda" else 0,
            max_restarts=-1,
            max_task_retries=_RETRIES,
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        )
        for _ in progress(done.iter_rows(), f"embedding on {plural(workers, 'worker')}, in shards", len(numbers)):
            pass
    except ray.exceptions.RayError as error:
        raise _root_cause(error) from error
    finally:
        context.enable_progress_bars = bars_enabled
        if started_here:
            ray.shutdown()


class ShardWriter:
    """A Ray actor that holds the network and writes the shards that it is called with."""

    def __init__(self, output: str, metadata: StoreMetadata, config: EmbedConfig, dataset: Any):
        import ray
        import torch

        torch.set_num_threads(1)
        self.store, self.config = EmbeddingStore(output, metadata), config
        self.dataset: Any = ray.get(dataset)
        self.encoder = build_encoder(config.model, config.checkpoint, config.image_size, config.device, config.features)
        if self.encoder.weights_digest() != metadata.settings.weights:
            raise ValueError(
                f"the weights of {self.encoder.name} on this machine differ from those of the driver; install the same"
            )

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        numbers = [int(number) for number in rows["shard"]]
        missing = [number for number in numbers if self.store.finished_shard(number) is None]
        for number, shard in embed_shards(self.encoder, self.dataset, self.store, self.config, missing):
            self.store.write_shard(number, shard)
        return {"shard": numbers, "process": [os.getpid()] * len(numbers)}


def _root_cause(error: Exception) -> Exception:
    """The error that a worker raised, without Ray's wrapping."""
    cause: Any = error
    while (deeper := getattr(cause, "cause", None) or cause.__cause__) is not None:
        cause = deeper
    if isinstance(cause, (ValueError, OSError, ImportError)):
        return type(cause)(str(cause))
    return OSError(f"a Ray worker failed, and again after {_RETRIES} retries; finished shards are kept: {error}")
