"""Angles in tests."""

import torch


def angle_between(a, b):
    """The absolute difference of angles in degrees, at most 180."""
    difference = torch.as_tensor(a - b, dtype=torch.float64)
    return ((difference + 180) % 360 - 180).abs()
