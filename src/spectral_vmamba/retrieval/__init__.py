"""Embed images as vectors, store the vectors and search them."""

from spectral_vmamba.retrieval.embed import EmbedResult, embed
from spectral_vmamba.retrieval.embed_config import EmbedConfig
from spectral_vmamba.retrieval.search import Hit, search

__all__ = ["EmbedConfig", "EmbedResult", "Hit", "embed", "search"]
