"""What a frozen stem makes of pictures, kept on disk: features and visiting orders of every view, computed once."""

from spectral_vmamba.engine.cache.features import FeatureCache, open_cache
from spectral_vmamba.engine.cache.views import Views, augmented_views, plain_view, turned_views

__all__ = ["FeatureCache", "Views", "augmented_views", "open_cache", "plain_view", "turned_views"]
