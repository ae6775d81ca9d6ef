"""transformers loads the folders of `save_for_hub`: it builds networks on the meta device, and does not use
`load_state_dict`."""

import pytest
import torch

from spectral_vmamba.inference import save_for_hub
from spectral_vmamba.models import is_cpu_scale, is_spectral, list_models
from spectral_vmamba.testing import activate_scan
from tests.support.models import build, example_images

pytestmark = pytest.mark.full
transformers = pytest.importorskip("transformers", reason="pip install transformers")

CPU_SCALE = [name for name in list_models() if is_cpu_scale(name)]


def build_active(name):
    options = {"turns": 8, "domain": "disk", "pooling": "max"} if is_spectral(name) else {}
    return activate_scan(build(name, **options)).eval()


@pytest.mark.parametrize("name", CPU_SCALE)
def test_classifier_gives_the_same_logits(name, tmp_path):
    model, images = build_active(name), example_images(name)
    classes = [f"class {i}" for i in range(7)]
    folder = save_for_hub(model, tmp_path, classes)
    loaded = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    assert list(loaded.config.id2label.values()) == classes
    with torch.no_grad():
        assert torch.equal(loaded(pixel_values=images).logits, model(images))


@pytest.mark.parametrize("name", CPU_SCALE)
def test_model_gives_the_same_features(name, tmp_path):
    model, images = build_active(name), example_images(name)
    loaded = transformers.AutoModel.from_pretrained(save_for_hub(model, tmp_path)).eval()
    with torch.no_grad():
        outputs, features = loaded(pixel_values=images), model.forward_features(images)
        assert torch.equal(outputs.last_hidden_state, features)
        assert torch.equal(outputs.pooler_output, model.forward_head(features, pre_logits=True))


@pytest.mark.parametrize("name", CPU_SCALE)
def test_backbone_gives_maps_of_the_chosen_stages(name):
    config = transformers.TimmBackboneConfig(backbone=name, use_pretrained_backbone=False, out_indices=(0, 1))
    backbone = transformers.TimmBackbone(config).eval()
    with torch.no_grad():
        maps = backbone(example_images(name)).feature_maps
    assert [m.shape[1] for m in maps] == list(backbone.channels)
    assert all(m.dim() == 4 for m in maps)
