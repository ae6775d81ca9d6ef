"""The parts of the networks as modules: RFN and its stems, S6 mixers (scan and STM), blocks, downsampling."""

from spectral_vmamba.layers.block import Block
from spectral_vmamba.layers.downsample import ConvDownsample, CornerDownsample, Downsample
from spectral_vmamba.layers.local_mixing import DepthwiseConv, IsotropicConv
from spectral_vmamba.layers.mixer import S6Mixer
from spectral_vmamba.layers.radius import RadiusEmbedding
from spectral_vmamba.layers.rfn import RotationalFeatureNormalizer
from spectral_vmamba.layers.s6 import S6
from spectral_vmamba.layers.stems import ConvStem, PretrainedStem, pad_to_patches

__all__ = [
    "S6",
    "Block",
    "ConvDownsample",
    "ConvStem",
    "CornerDownsample",
    "DepthwiseConv",
    "Downsample",
    "IsotropicConv",
    "PretrainedStem",
    "RadiusEmbedding",
    "RotationalFeatureNormalizer",
    "S6Mixer",
    "pad_to_patches",
]
