"""The same shards, computed by the processes of a Ray cluster: one row of a Ray data set is one shard.

A worker writes its shard whole or not at all, and computes it again only if it is not there: whichever worker dies, no
image is lost or doubled. The output folder, and the images that are files, must be seen by all machines.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from spectral_vmamba.data.collection import Collection
from spectral_vmamba.retrieval.embed_config import EmbedConfig
from spectral_vmamba.retrieval.store import OutputFolder

_RETRIES = 3  # of a shard whose worker died: a image that kills every worker must not do so for ever


def embed_on_ray(
    folder: OutputFolder, collection: Collection, config: EmbedConfig, numbers: list[int], progress: Callable
) -> None:
    ray = _ray()
    mine = not ray.is_initialized()
    if mine:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    settings = ray.data.DataContext.get_current()
    bars = settings.enable_progress_bars
    settings.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # it warns that its own bars are off
    workers = min(config.workers or int(ray.cluster_resources().get("CPU", 1)), len(numbers))
    everything = ray.put(collection)  # held here until the end: workers that start anew ask for it
    try:
        shards = ray.data.from_items([{"shard": number} for number in numbers], override_num_blocks=len(numbers))
        done = shards.map_batches(
            ShardWriter,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
            fn_constructor_args=(
                str(folder.path.absolute()),
                folder.facts,
                replace(config, workers=0, engine="local"),
                everything,
            ),
            num_cpus=1,
            num_gpus=1 if config.device.startswith("cuda") else 0,
            max_restarts=-1,
            max_task_retries=_RETRIES,
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        )
        for _ in progress(done.iter_rows(), f"embedding on {workers} workers, in shards", len(numbers)):
            pass
    except ray.exceptions.RayError as error:
        raise _plain(error) from error
    finally:
        settings.enable_progress_bars = bars
        if mine:
            ray.shutdown()


class ShardWriter:
    """Holds the network; called with the number of a shard, it writes the shard."""

    def __init__(self, output: str, facts: dict[str, Any], config: EmbedConfig, collection: Any):
        import ray
        import torch

        from spectral_vmamba.retrieval.encoder import build_encoder

        torch.set_num_threads(1)
        self.folder, self.config = OutputFolder(output, facts), config
        self.collection: Any = ray.get(collection)
        self.encoder = build_encoder(config.model, config.checkpoint, config.image_size, config.device)
        if self.encoder.weights() != facts["settings"]["weights"]:
            raise ValueError(
                f"this machine has other weights of {self.encoder.name} than the one that asks; make them equal"
            )

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        from spectral_vmamba.retrieval.embed import embedded_shards

        numbers = [int(number) for number in rows["shard"]]
        missing = [number for number in numbers if self.folder.finished_shard(number) is None]
        for number, shard in embedded_shards(self.encoder, self.collection, self.folder, self.config, missing):
            self.folder.write_shard(number, shard)
        return {"shard": numbers, "process": [os.getpid()] * len(numbers)}


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError("the engine ray needs Ray Data: pip install 'spectral-vmamba[ray]'") from error
    return ray


def _plain(error: Exception) -> Exception:
    """What went wrong in a worker, without the way it came."""
    cause: Any = error
    while (deeper := getattr(cause, "cause", None) or cause.__cause__) is not None:
        cause = deeper
    if isinstance(cause, (ValueError, OSError, ImportError)):
        return type(cause)(str(cause))
    return OSError(f"a Ray worker failed, and again after {_RETRIES} retries; finished shards are kept: {error}")
