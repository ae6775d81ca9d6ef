"""Semantic segmentation: a class for every pixel, in masks that turn with the image. Requires the extra `segment`."""
