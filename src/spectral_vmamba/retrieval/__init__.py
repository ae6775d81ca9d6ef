"""Embed images as vectors, store them and search them."""

from spectral_vmamba.retrieval.embed import Embedded, embed
from spectral_vmamba.retrieval.embed_config import EmbedConfig
from spectral_vmamba.retrieval.search import Hit, search

__all__ = ["EmbedConfig", "Embedded", "Hit", "embed", "search"]
