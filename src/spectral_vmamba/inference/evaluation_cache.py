"""Whether an evaluation uses the feature cache, and which folder."""

from collections.abc import Callable
from pathlib import Path

from spectral_vmamba.features import FeatureStore, default_cache_folder, find_store, frozen_tokenizer, open_store
from spectral_vmamba.features.feature_store import Precision
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
    header = predictor.header
    trained_with_cache = header is not None and header.training_setting(bool, "config", "cache") is True
    if cache is False or (cache is None and cache_folder is None and not trained_with_cache):
        return None
    tokenizer = frozen_tokenizer(predictor.model)
    stored = header.training_setting(str, "config", "cache_precision") if header is not None else None
    precision: Precision = "float32" if trained_with_cache and stored == "float32" else "float16"
    settings = (tokenizer, predictor.preprocessing, precision)
    folder = cache_folder
    used = header.training_setting(str, "config", "cache_folder") if header is not None else None
    if folder is None and used and find_store(Path(used), *settings):
        folder = used
    return open_store(default_cache_folder(folder), *settings, note, progress)
