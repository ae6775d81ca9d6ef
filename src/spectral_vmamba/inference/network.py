"""Build a classifier from options or for the weights of a checkpoint, and find the preprocessing that it expects."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.build_budget import BuildBudget
from spectral_vmamba.inference.checkpoint import Checkpoint, CheckpointError, WeightChoice, load_weights
from spectral_vmamba.inference.model_options import check_depth, without_initial_weights
from spectral_vmamba.layers import PretrainedStem
from spectral_vmamba.models import create_model
from spectral_vmamba.utils.tensor_file import digest_tensors
from spectral_vmamba.utils.wording import plural


def build_classifier(
    name: str, options: dict[str, Any], classes: Sequence[str], drop_path: float | None = None
) -> nn.Module:
    """Create a model for these classes; options that it does not take raise a ValueError."""
    keywords = dict(options)
    if drop_path is not None:
        keywords["drop_path_rate"] = drop_path
    try:
        return create_model(name, num_classes=len(classes), **keywords)
    except TypeError as error:
        raise ValueError(f"{name} does not take these options: {error}") from error


def build_from_checkpoint(checkpoint: Checkpoint, which: WeightChoice) -> nn.Module:
    """The classifier of a checkpoint, with its weights. Raises a CheckpointError if they do not match."""
    header = checkpoint.header
    if header.masks is not None:
        raise CheckpointError(
            f"{checkpoint.path} contains a segmentation network; use `spectral-vmamba segment`, or "
            "spectral_vmamba.load_segmenter"
        )
    options = without_initial_weights(header.model, header.model_options)
    return build_with_weights(checkpoint, which, lambda: build_classifier(header.model, options, header.classes))


def build_with_weights(checkpoint: Checkpoint, which: WeightChoice, build: Callable[[], nn.Module]) -> nn.Module:
    """What `build` makes of the header of a checkpoint, with its weights; a CheckpointError if they do not match.

    Building a model allocates as much as its options say. It is therefore built without memory first, and only a model
    with exactly the tensors of the file is built a second time.
    """
    header, weights = checkpoint.header, checkpoint.weights(which)
    size = sum(tensor.nbytes for tensor in weights.values())
    try:
        check_depth(header.model_options, len(weights))
        with BuildBudget(len(weights), size) as budget:
            plan = build()
        budget.check(plan)
    except Exception as error:  # options that no network takes end in errors of every kind
        problem = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        raise CheckpointError(f"{checkpoint.path} describes no model that can be built: {problem[:500]}") from error
    _compare(plan.state_dict(), weights, checkpoint)
    model = build()
    load_weights(model, weights)
    check_stem(model, checkpoint)
    return model


def check_stem(model: nn.Module, checkpoint: Checkpoint) -> None:
    """Compare the frozen stem of a model, with the weights of a checkpoint, with the stem that it was trained with."""
    expected, digest = checkpoint.header.stem_sha256, stem_digest(model)
    if expected != digest:
        raise CheckpointError(
            f"{checkpoint.path} was trained with the frozen stem {_short(expected)}, but contains the stem "
            f"{_short(digest)} (SHA-256 of its tensors): its weights were replaced after training"
        )


def stem_digest(model: nn.Module) -> str | None:
    """SHA-256 over the tensors of the frozen stem of a model; None without one."""
    stem = next((module for module in model.modules() if isinstance(module, PretrainedStem)), None)
    return digest_tensors(stem.state_dict()) if stem is not None and stem.frozen else None


def default_preprocessing(model: Any, size: int | None = None, crop: float | None = None) -> Preprocessing:
    """The preprocessing of a model's `pretrained_cfg`, with another size or crop if given.

    Images are turned into the frame of the network before they are resized.
    """
    defaults = model.pretrained_cfg
    return Preprocessing(
        size=size or defaults["input_size"][-1],
        mean=tuple(defaults["mean"]),
        std=tuple(defaults["std"]),
        crop=crop or defaults.get("crop_pct") or 1.0,
        interpolation=defaults.get("interpolation") or "bicubic",
        frame=getattr(getattr(model, "config", None), "frame", "none"),
    )


def _compare(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor], checkpoint: Checkpoint) -> None:
    names = dict.fromkeys((*expected, *weights))
    parts = (expected, weights)
    shapes = {name: [tuple(part[name].shape) if name in part else None for part in parts] for name in names}
    differing = [name for name, (wanted, given) in shapes.items() if wanted != given]
    if differing:
        wanted, given = ("no such tensor" if shape is None else f"{shape}" for shape in shapes[differing[0]])
        raise CheckpointError(
            f"{checkpoint.path} does not match the model {checkpoint.header.model} that it describes: "
            f"{plural(len(differing), 'tensor')} differ, for example {differing[0][:100]!r}: the model has {wanted}, "
            f"the file {given}"
        )


def _short(digest: str | None) -> str:
    return "(none)" if digest is None else f"{digest[:12]}…"
