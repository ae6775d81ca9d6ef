"""Metrics: classification scores, rotation, FLOPs, the model catalog, the environment."""
