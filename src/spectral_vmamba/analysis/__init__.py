"""`measure_*` turns models and images into numbers, `plot_*` turns numbers into figures."""

from spectral_vmamba.analysis.environment import Environment, measure_environment
from spectral_vmamba.analysis.flops import ModelCost, measure_cost
from spectral_vmamba.analysis.rotation import plot_rotation
from spectral_vmamba.analysis.traversal import TraversalPair, measure_traversal, plot_traversals

__all__ = [
    "Environment",
    "ModelCost",
    "TraversalPair",
    "measure_cost",
    "measure_environment",
    "measure_traversal",
    "plot_rotation",
    "plot_traversals",
]
