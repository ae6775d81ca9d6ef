"""Semantic segmentation: networks that give a class to every pixel."""
