"""Start a segmentation network from the weights of another run."""

from pathlib import Path

from spectral_vmamba.inference.checkpoint import Checkpoint, find_checkpoint, load_checkpoint
from spectral_vmamba.segmentation.model import SegmentationModel
from spectral_vmamba.utils.wording import plural

_HEAD = "network.segmentation_head."
_UPRIGHT = "tokenizer.upright"  # learned from the training images of each run


def load_initial_weights(model: SegmentationModel, path: str | Path, classes: tuple[str, ...] | int) -> None:
    """Load the weights of a segmentation network, or of a classifier into the backbone, in place.

    The last layer is skipped if the classes, or their number, differ. All other tensors must match, except for those of
    a classifier that a backbone does not have, and the score of the frame upright. Raises ValueError otherwise.
    """
    checkpoint = load_checkpoint(find_checkpoint(path))
    weights, target = checkpoint.weights("best"), model
    kept = set(model.state_dict())
    if checkpoint.header.masks is None:
        target, kept = model.backbone, set(model.backbone.state_dict())
        weights = {name: tensor for name, tensor in weights.items() if name in kept}
    elif not _has_classes(checkpoint, classes):
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith(_HEAD)}
        kept = {name for name in kept if not name.startswith(_HEAD)}
    expected = {name: tensor.shape for name, tensor in target.state_dict().items() if name in kept}
    differing = [
        name
        for name in {**expected, **weights}
        if _UPRIGHT not in name and (name not in weights or expected.get(name) != weights[name].shape)
    ]
    if differing:
        raise ValueError(
            f"{checkpoint.path} does not match the backbone and decoder: {plural(len(differing), 'tensor')} missing, "
            f"unexpected or of another shape, for example {differing[0][:100]!r}"
        )
    target.load_state_dict(weights, strict=False)


def _has_classes(checkpoint: Checkpoint, classes: tuple[str, ...] | int) -> bool:
    found = checkpoint.header.classes
    return len(found) == classes if isinstance(classes, int) else found == classes
