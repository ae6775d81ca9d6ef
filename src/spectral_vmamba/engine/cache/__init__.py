"""What a frozen stem makes of pictures, kept on disk: features and visiting orders of every view, computed once."""

from spectral_vmamba.engine.cache.features import FeatureCache, cache_root, fixed_embedding, open_cache
from spectral_vmamba.engine.cache.filling import fill, request_views
from spectral_vmamba.engine.cache.kept import Kept, TokenBatch
from spectral_vmamba.engine.cache.sweeping import KeptPictures, kept_views
from spectral_vmamba.engine.cache.views import Views, augmented_views, plain_view, turned_views

__all__ = [
    "FeatureCache",
    "Kept",
    "KeptPictures",
    "TokenBatch",
    "Views",
    "augmented_views",
    "cache_root",
    "fill",
    "fixed_embedding",
    "kept_views",
    "open_cache",
    "plain_view",
    "request_views",
    "turned_views",
]
