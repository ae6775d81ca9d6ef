"""Build classifiers and find their preprocessing."""

import pytest

from spectral_vmamba.inference.network import build_classifier, default_preprocessing

NARROW = {"widths": (8,), "depths": (1,)}


def test_the_number_of_classes_and_stochastic_depth():
    model = build_classifier("spectral_vmamba_nano", {"widths": (8,), "depths": (2,)}, ("a", "b", "c"), 0.3)
    assert model.num_classes == 3
    rates = [module.drop_prob for module in model.modules() if type(module).__name__ == "DropPath"]
    assert max(rates) == pytest.approx(0.3)


def test_unknown_options_and_models_are_rejected():
    with pytest.raises(ValueError, match="spectral_vmamba_nano does not take these options"):
        build_classifier("spectral_vmamba_nano", {"color": "red"}, ("a", "b"))
    with pytest.raises(ValueError, match="close names: spectral_vmamba_nano"):
        build_classifier("spectral_vmamba_nanno", {}, ("a", "b"))


def test_preprocessing_comes_from_the_model_unless_given():
    spectral = build_classifier("spectral_vmamba_nano", NARROW, ("a", "b"))
    default = default_preprocessing(spectral)
    assert default.frame == "quarter"
    assert default.size == spectral.pretrained_cfg["input_size"][-1]
    assert default_preprocessing(spectral, size=48, crop=0.5).size == 48
    assert default_preprocessing(spectral, size=48, crop=0.5).crop == 0.5
    without_frame = build_classifier("spectral_vmamba_nano", {**NARROW, "frame": "none"}, ("a", "b"))
    assert default_preprocessing(without_frame).frame == "none"
    assert default_preprocessing(build_classifier("vmamba_nano", NARROW, ("a", "b"))).frame == "none"
    framed = build_classifier("vmamba_nano", {**NARROW, "frame": "quarter"}, ("a", "b"))
    assert default_preprocessing(framed).frame == "quarter"
