"""Any network of timm, posed: it sees every image in a frame, and its features are pooled over turned copies."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.models.framing import Posed, enter_frame
from spectral_vmamba.models.input_checks import check_images
from spectral_vmamba.models.network_config import NetworkConfig
from spectral_vmamba.ops.frames import Frame, TurnPool, pool_over_turns

POSE_OPTIONS = ("frame", "turns", "turn_pool")


class InvariantModel(nn.Module):
    """A classifier of timm's kind whose logits do not change when the image is turned.

    With a frame, all quarter turns of an image give the same bits; with "moment", all angles nearly the same logits.
    Other attributes and methods are those of the wrapped `model`.
    """

    def __init__(self, model: nn.Module, frame: Frame = "moment", turns: int = 1, turn_pool: TurnPool = "mean"):
        super().__init__()
        self.model = model
        self.config = NetworkConfig(frame=frame, turns=turns, turn_pool=turn_pool)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters that take no weight decay."""
        names = getattr(self.model, "no_weight_decay", set)
        return {f"model.{name}" for name in names()}

    def group_matcher(self, coarse: bool = False) -> Any:
        """timm's patterns of parameter names, by depth."""
        return {group: _after_prefix(patterns) for group, patterns in self._network.group_matcher(coarse).items()}

    def forward(self, images: Float[Tensor, "b c H W"]) -> Tensor:
        if self.config.copies == 1:
            return self._network(self.enter_frame(images).images)
        classifier = self.get_classifier()
        if not isinstance(classifier, nn.Module):  # several classifiers, as of distilled networks
            return self._over_turns(self._network, images)
        return classifier(self.forward_pooled(images))

    def forward_pooled(self, images: Float[Tensor, "b c H W"]) -> Tensor:
        """Return the input of the classifier, pooled over the turned copies."""
        network = self._network
        return self._over_turns(lambda x: network.forward_head(network.forward_features(x), pre_logits=True), images)

    def forward_features(self, images: Float[Tensor, "b c H W"]) -> Tensor:
        """Return the features of the network in its frame, of one copy; maps (b, c, h, w) in the orientation of the
        images."""
        posed = self.enter_frame(images)
        return self._turn_back(self._network.forward_features(posed.images), posed)

    def forward_intermediates(self, x: Float[Tensor, "b c H W"], *arguments: Any, **keywords: Any) -> Any:
        """Return what the network returns, of one copy; maps (b, c, h, w) in the orientation of the images."""
        posed = self.enter_frame(x)
        outputs = self._network.forward_intermediates(posed.images, *arguments, **keywords)
        if isinstance(outputs, tuple):
            last, maps = outputs
            return self._turn_back(last, posed), [self._turn_back(each, posed) for each in maps]
        return [self._turn_back(each, posed) for each in outputs]

    def enter_frame(self, images: Float[Tensor, "b c H W"]) -> Posed:
        """Return the images in the frame of the network. ValueError for what is no batch of images, and for NaN and
        infinite pixels, which have no frame."""
        if self.config.frame != "none":
            channels = getattr(self._network, "in_chans", None) or images.shape[1] if images.dim() == 4 else 3
            check_images(images, channels, 1)
        return enter_frame(images, self.config.frame)

    @property
    def _network(self) -> Any:
        return self.model

    def _over_turns(self, features: Any, images: Tensor) -> Tensor:
        return pool_over_turns(features, self.enter_frame(images).images, self.config.copies, self.config.turn_pool)

    def _turn_back(self, features: Tensor, posed: Posed) -> Tensor:
        if posed.pose is None or features.dim() != 4:
            return features
        return posed.pose.undo(features)


def _after_prefix(patterns: Any) -> Any:
    """Patterns of the names of a network, for the names of the network that contains it as `model`."""
    if isinstance(patterns, str):
        without_start = patterns.replace("^", "")
        return rf"^model\.(?:{without_start})"
    if isinstance(patterns, (list, tuple)):
        return type(patterns)(_after_prefix(part) for part in patterns)
    return patterns
