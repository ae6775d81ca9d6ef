"""What a classifier promises under quarter turns, and why."""

from spectral_vmamba.inference.certificate import Level, Promise
from spectral_vmamba.inference.predictor import Predictor
from spectral_vmamba.models.network_config import NetworkConfig
from spectral_vmamba.models.spectral_config import SpectralConfig

EXACT = 0.0
MEASURED_FILE = Promise(None, "Saving as JPEG and resizing change the pixels, and with them the outputs.")
MEASURED_ANGLE = Promise(None, "Interpolation changes the pixels, and with them the outputs.")


def promise_of(predictor: Predictor, level: Level, tolerance: float) -> Promise:
    """Return what the classifier promises at a level; at `files` for PNG files, which keep every pixel.

    `tolerance` is the change of a probability to accept where the promise holds up to rounding.
    """
    if level == "files":
        if predictor.preprocessing.frame != "none":
            return Promise(
                EXACT, "Preprocessing turns every file to its canonical orientation, which gives the same pixels."
            )
        return Promise(None, "Preprocessing resizes files as they are turned, and rounds differently for each turn.")
    config = network_config(predictor)
    if config is None:
        return Promise(None, "Only networks of this package promise invariance.")
    if level == "tensor" and config.frame != "none":
        return Promise(EXACT, "The frame turns all four quarter turns of an image to the same bits.")
    if config.is_quarter_turn_invariant_without_frame:
        spectral = isinstance(config, SpectralConfig)
        reason = "RFN and STS together are" if spectral else "Features pooled over four quarter turns are"
        return Promise(tolerance, f"{reason} invariant to quarter turns, up to rounding in single precision.")
    return Promise(None, "Without a frame, the layers of this network depend on the orientation.")


def network_config(predictor: Predictor) -> NetworkConfig | None:
    """The configuration of a network of this package; None for other networks."""
    config = getattr(predictor.model, "config", None)
    return config if isinstance(config, NetworkConfig) else None
