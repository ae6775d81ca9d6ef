"""Semantic segmentation: a class for every pixel, in masks that turn with the image. Requires the extra `segment`."""

from spectral_vmamba.segmentation.augmentation import MaskAugmentation
from spectral_vmamba.segmentation.create import create_segmenter
from spectral_vmamba.segmentation.mask_evaluation import MaskEvaluation, evaluate_segmenter
from spectral_vmamba.segmentation.mask_training import fit_segmenter
from spectral_vmamba.segmentation.model import SegmentationModel
from spectral_vmamba.segmentation.segment_config import SegmentConfig, segment_recipe
from spectral_vmamba.segmentation.segmenter import SegmentedImage, Segmenter, load_segmenter

__all__ = [
    "MaskAugmentation",
    "MaskEvaluation",
    "SegmentConfig",
    "SegmentationModel",
    "SegmentedImage",
    "Segmenter",
    "create_segmenter",
    "evaluate_segmenter",
    "fit_segmenter",
    "load_segmenter",
    "segment_recipe",
]
