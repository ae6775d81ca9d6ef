"""Semantic segmentation: networks that give every pixel a class."""
