"""The cache of frozen-stem features: features and visiting orders of each view, computed once and stored on disk."""

from spectral_vmamba.features.cached_dataset import CachedDataset, cache_dataset
from spectral_vmamba.features.cached_views import ViewSet, augmented_views, eval_view, rotated_views
from spectral_vmamba.features.feature_store import (
    FeatureStore,
    default_cache_folder,
    find_store,
    frozen_tokenizer,
    open_store,
)
from spectral_vmamba.features.fill import ViewRequest, fill

__all__ = [
    "CachedDataset",
    "FeatureStore",
    "ViewRequest",
    "ViewSet",
    "augmented_views",
    "cache_dataset",
    "default_cache_folder",
    "eval_view",
    "fill",
    "find_store",
    "frozen_tokenizer",
    "open_store",
    "rotated_views",
]
