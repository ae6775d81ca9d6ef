"""Whether an evaluation uses the feature cache, and which folder."""

from collections.abc import Callable
from pathlib import Path

from spectral_vmamba.features import FeatureStore, default_cache_folder, find_store, frozen_tokenizer, open_store
from spectral_vmamba.inference.predictor import Predictor
from spectral_vmamba.utils.progress import Progress


def open_evaluation_store(
    predictor: Predictor,
    cache: bool | None,
    cache_folder: str | Path | None,
    note: Callable[[str], None],
    progress: Progress,
) -> FeatureStore | None:
    """Open the store that `cache` and `cache_folder` ask for; None to evaluate on pixels.

    `cache=None` means as in training, or yes if a folder is given. The folder in a checkpoint is used only if it
    already contains the features of this stem: a checkpoint cannot choose where files are written.
    """
    config = predictor.header.training.get("config", {}) if predictor.header is not None else {}
    trained_with_cache = bool(config.get("cache"))
    if cache is False or (cache is None and cache_folder is None and not trained_with_cache):
        return None
    tokenizer = frozen_tokenizer(predictor.model)
    precision = config["cache_precision"] if trained_with_cache else "float16"
    settings = (tokenizer, predictor.preprocessing, precision)
    folder = cache_folder
    if folder is None and config.get("cache_folder") and find_store(Path(config["cache_folder"]), *settings):
        folder = config["cache_folder"]
    return open_store(default_cache_folder(folder), *settings, note, progress)
