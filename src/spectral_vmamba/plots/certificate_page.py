"""A certificate of invariance as one self-contained HTML page, to read or to print."""

from collections.abc import Iterable, Mapping
from html import escape

from spectral_vmamba.inference.certificate import COLUMNS, Certificate

_STYLE = """
@page { size: A4; margin: 15mm; }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 50rem; margin: 1.5rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.05rem; margin: 1.3rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .2rem .5rem; border-bottom: 1px solid #ddd; }
th { text-align: left; vertical-align: top; } td { vertical-align: top; overflow-wrap: anywhere; }
.numbers th, .numbers td { white-space: nowrap; }
.facts th { width: 11rem; font-weight: 600; } code { font-size: .95em; }
.verdict { border: 2px solid; padding: .5rem .8rem; font-weight: 600; overflow-wrap: anywhere; }
.passed { color: #146c2e; } .FAILED { color: #b3261e; font-weight: 600; } .measured { color: #555; }
ul { margin: .3rem 0; padding-left: 1.2rem; }
"""
_EXPLANATION = (
    "Each image is changed, and the prediction is compared with that on the unchanged image. A flip is a changed "
    "prediction; |Δp| is the change of a probability. The level “tensor” turns the preprocessed image by 90, 180 and "
    "270°; “no-frame” does the same with the frame switched off; “files” turns the original image by 90, "
    "180 and 270° and saves it again as PNG or JPEG (the number is the quality), or resizes it by 2 % (at least one "
    "pixel); “angles” rotates the original image (bicubic)."
)


def format_certificate(certificate: Certificate, provenance: Mapping[str, str]) -> str:
    """Return the page. `provenance` are facts by name: checkpoint, command, date, machine, versions. All text is
    escaped."""
    name = escape(certificate.name)
    result = "passed" if certificate.holds else "FAILED"
    rows = "".join(_row(check.cells(), check.verdict) for check in certificate.checks)
    promises = "".join(f"<li>{escape(line)}</li>" for line in certificate.describe_promises())
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Invariance certificate: {name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Invariance certificate: {name}</h1>\n<p>{escape(_sentence(certificate.describe_images()))}</p>\n"
        f'<p class="verdict {result}">{escape(_sentence(certificate.summarize()))}</p>\n'
        f'<h2>Results</h2>\n<table class="numbers"><tr>{_cells(COLUMNS, "th")}</tr>\n{rows}</table>\n'
        f"<h2>What the network promises, and why</h2>\n<ul>{promises}</ul>\n"
        f"<h2>What was checked</h2>\n<p>{escape(_EXPLANATION)}</p>\n"
        f'<h2>How to repeat it</h2>\n<table class="facts">{_facts(provenance)}</table>\n</body>\n</html>\n'
    )


def _row(cells: Iterable[str], verdict: str) -> str:
    *numbers, result = cells
    return f'<tr>{_cells(numbers, "td")}<td class="{verdict}">{escape(result)}</td></tr>\n'


def _cells(texts: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)


def _facts(provenance: Mapping[str, str]) -> str:
    facts = {name: escape(fact) for name, fact in provenance.items()}
    if "command" in facts:
        facts["command"] = f"<code>{facts['command']}</code>"
    return "".join(f"<tr><th>{escape(name)}</th><td>{fact}</td></tr>" for name, fact in facts.items())


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
