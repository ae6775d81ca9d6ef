"""Measure weights that ship with the package on the images that their run held out, and write their model card.

    python -m benchmarks.model_cards spectral_vmamba_nano.digits runs/digits --recipe "…" --limits "…"

The card has the accuracy at every 15°, the certificate, and the size and load time of the file.
"""

import argparse
import time
from pathlib import Path

from spectral_vmamba.inference import Certificate, Evaluation, Predictor, certify, evaluate, load
from spectral_vmamba.inference.certificate import COLUMNS
from spectral_vmamba.inference.checkpoint import LAST_FILE, find_checkpoint, load_checkpoint
from spectral_vmamba.inference.predictor import make_predictor
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.metrics.rotation import Sweep
from spectral_vmamba.models.shipped_weights import ShippedWeights, find_weights
from spectral_vmamba.studies.row_tables import markdown
from spectral_vmamba.utils.atomic_files import write_text
from spectral_vmamba.utils.wording import plural

FOLDER = Path(__file__).parents[1] / "docs" / "models"
STEP = 15.0
LOADS = 5


def measured_predictor(name: str, run: str) -> Predictor:
    """The shipped weights with the split of their run, whose test images are measured."""
    header = load_checkpoint(Path(run) / LAST_FILE).header
    shipped = load_checkpoint(find_checkpoint(name))
    return make_predictor(type(shipped)(shipped.path, shipped.tensors, header), "ema", "cpu")


def fastest_load(name: str) -> float:
    def seconds() -> float:
        start = time.perf_counter()
        load(name, device="cpu")
        return time.perf_counter() - start

    return min(seconds() for _ in range(LOADS))


def make_card(weights: ShippedWeights, predictor: Predictor, recipe: str, limits: str) -> str:
    evaluation = evaluate(predictor, rotations=STEP, cache=False)
    certificate = certify(predictor, levels=("tensor", "no-frame"))
    parameters = sum(parameter.numel() for parameter in predictor.model.parameters())
    megabytes = weights.path.stat().st_size / 1e6
    options = ", ".join(f"`{key}={value!r}`" for key, value in weights.model_options.items()) or "the default ones"
    machine = measure_environment()
    threads = plural(machine.threads, "thread")
    return f"""# {weights.name}

Classifies {weights.images}, in {len(weights.classes)} classes: {", ".join(weights.classes)}.

```python
import spectral_vmamba, timm

spectral_vmamba.load("{weights.name}").predict("image.png")  # classes and probabilities
timm.create_model("{weights.name}", pretrained=True)  # the network
```

`spectral-vmamba predict --model {weights.name} image.png` does the same on the command line.

| | |
|---|---|
| architecture | `{weights.architecture}`; options: {options} |
| parameters | {parameters:,} |
| input | {weights.image_size} × {weights.image_size} pixels |
| file | {megabytes:.1f} MB, SHA-256 `{weights.sha256[:16]}…`; loads in {fastest_load(weights.name):.2f} s |
| license, or terms of the training images | {weights.license} |
| training | `{recipe}` |

## Accuracy at every angle

{describe_sweep(evaluation)}

## Certificate

{describe_certificate(certificate)}

## Limits

{limits}

Measured on {machine.machine}, {threads}, torch {machine.packages["torch"]}, by `python -m benchmarks.model_cards`.
"""


def describe_sweep(evaluation: Evaluation) -> str:
    sweep: Sweep = evaluation.sweeps[0]
    rows = [
        (f"{point.angle:g}°", f"{point.accuracy:.2%}", f"{point.agreement:.2%}")
        for point in sweep.points
        if point.angle < 90
    ]
    quarters = sum(point.flips for point in sweep.quarters)
    least = min(point.agreement for point in sweep.points)
    return (
        f"On {evaluation.scores.images:,} images that it was not trained on and that did not select its weights, which "
        f"are the averaged ones of the last epoch. All {len(sweep.points)} angles: mean "
        f"{sweep.mean_accuracy:.2%}, worst {sweep.worst.accuracy:.2%}, agreement with the upright image at least "
        f"{least:.2%}; {quarters} predictions change at 90, 180 and 270°.\n\n"
        f"{markdown(('angle', 'accuracy', 'agreement'), rows)}"
    )


def describe_certificate(certificate: Certificate) -> str:
    rows = [COLUMNS, *(check.cells() for check in certificate.checks)]
    headings, *cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return f"{certificate.summarize()}\n\n{markdown(headings, cells)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the weights")
    parser.add_argument("run", help="run folder that they come from")
    parser.add_argument("--recipe", required=True, help="command of the training")
    parser.add_argument("--limits", required=True, help="what the weights are not for")
    arguments = parser.parse_args()
    found = find_weights(arguments.name)
    if found is None:
        raise SystemExit(f"no weights {arguments.name!r}; add them with benchmarks.ship_weights")
    card = make_card(found, measured_predictor(arguments.name, arguments.run), arguments.recipe, arguments.limits)
    FOLDER.mkdir(exist_ok=True)
    write_text(FOLDER / f"{arguments.name}.md", card)
