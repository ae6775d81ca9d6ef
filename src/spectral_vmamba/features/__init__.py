"""What a frozen stem makes of images, kept on disk: features and visiting orders of every view, computed once."""

from spectral_vmamba.features.cached_dataset import CachedDataset, TokenBatch
from spectral_vmamba.features.cached_views import Views, augmented_views, plain_view, turned_views
from spectral_vmamba.features.feature_store import FeatureCache, cache_root, frozen_tokenizer, open_cache
from spectral_vmamba.features.fill import fill, request_views

__all__ = [
    "CachedDataset",
    "FeatureCache",
    "TokenBatch",
    "Views",
    "augmented_views",
    "cache_root",
    "fill",
    "frozen_tokenizer",
    "open_cache",
    "plain_view",
    "request_views",
    "turned_views",
]
