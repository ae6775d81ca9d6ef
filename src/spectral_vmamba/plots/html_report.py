"""HTML reports in one self-contained file: text, tables, embedded figures, images and code."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO

import numpy as np
from jaxtyping import Int
from matplotlib.figure import Figure
from PIL import Image

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { line-height: 1.2; overflow-wrap: anywhere; } h2 { margin-top: 2.5rem; } p { overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; }
th, td { text-align: right; } th { vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; min-width: 9rem; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; } .note { color: #666; }
.warning { background: #fff6dd; border-left: 4px solid #e0a100; padding: .6rem .9rem; }
.scroll { max-height: 40rem; overflow: auto; }
.matrix { font-size: 13px; } .matrix th, .matrix td { border: 1px solid #eee; padding: .2rem .45rem; }
.matrix td { text-align: center; min-width: 1.6rem !important; } .matrix th { font-weight: normal; }
.matrix tbody th { min-width: 0; }
.matrix thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; max-height: 12rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 1rem; }
.gallery figure { margin: 0; font-size: 13px; line-height: 1.35; overflow-wrap: anywhere; }
.gallery img { height: 8rem; width: 100%; object-fit: contain; background: #f5f5f5; image-rendering: auto; }
"""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Counts by true class (row) and predicted class (column), colored by their share of the row."""

    names: Sequence[str]
    counts: Int[np.ndarray, "classes classes"]


@dataclass(frozen=True, eq=False)
class Tile:
    """A small image, None if it cannot be read, and the lines below it."""

    image: Image.Image | None
    lines: Sequence[str]


@dataclass(frozen=True)
class Section:
    """A heading, a warning, paragraphs, a table (the first row has the column names), a matrix, figures with captions,
    a gallery of images, and code."""

    title: str
    paragraphs: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    figures: Sequence[tuple[Figure, str]] = ()
    code: str = ""
    warning: str = ""
    matrix: Matrix | None = None
    gallery: Sequence[Tile] = ()


def format_html(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """Return the report as one HTML page. All text is escaped; figures and images are embedded."""
    body = "\n".join(_format_section(section) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_escape(title)}</h1>\n<p>{_escape(introduction)}</p>\n{body}\n</body>\n</html>\n"
    )


def _format_section(section: Section) -> str:
    parts = [f"<h2>{_escape(section.title)}</h2>"]
    if section.warning:
        parts.append(f'<p class="warning">{_escape(section.warning)}</p>')
    parts += [f"<p>{_escape(text)}</p>" for text in section.paragraphs]
    if section.table:
        heading, *rows = section.table
        body = _format_row(heading, "th") + "".join(_format_row(row, "td") for row in rows)
        parts.append(f'<div class="scroll"><table>{body}</table></div>')
    if section.matrix is not None:
        parts.append(_format_matrix(section.matrix))
    for figure, caption in section.figures:
        parts.append(f'<p><img alt="{_escape(caption)}" src="data:image/png;base64,{_encode_figure(figure)}"></p>')
        parts.append(f'<p class="note">{_escape(caption)}</p>')
    if section.gallery:
        parts.append(f'<div class="gallery">{"".join(map(_format_tile, section.gallery))}</div>')
    if section.code:
        parts.append(f"<pre>{_escape(section.code)}</pre>")
    return "\n".join(parts)


def _format_row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _format_matrix(matrix: Matrix) -> str:
    heading = "".join(f"<th>{_escape(name)}</th>" for name in matrix.names)
    shares = matrix.counts / matrix.counts.sum(1, keepdims=True).clip(1)
    rows = [
        f"<tr><th>{_escape(name)}</th>"
        + "".join(_format_cell(int(n), s) for n, s in zip(counts, share, strict=True))
        + "</tr>"
        for name, counts, share in zip(matrix.names, matrix.counts, shares, strict=True)
    ]
    return (
        f'<div class="scroll"><table class="matrix"><thead><tr><td></td>{heading}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _format_cell(count: int, share: float) -> str:
    if not count:
        return "<td></td>"
    color = "#fff" if share > 0.5 else "#222"
    return f'<td style="background:rgba(8,81,156,{max(share, 0.08):.2f});color:{color}">{count}</td>'


def _format_tile(tile: Tile) -> str:
    caption = "<br>".join(_escape(line) for line in tile.lines)
    image = '<p class="note">cannot be read</p>'
    if tile.image is not None:
        image = f'<img alt="" src="data:image/jpeg;base64,{_encode_jpeg(tile.image)}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _escape(text: str) -> str:
    """Also for file names that are not valid Unicode, which Python reads as lone surrogates."""
    return escape(text.encode("utf-8", "replace").decode())


def _encode_figure(figure: Figure) -> str:
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return base64.b64encode(stream.getvalue()).decode()


def _encode_jpeg(image: Image.Image) -> str:
    stream = BytesIO()
    image.convert("RGB").save(stream, format="JPEG", quality=85)
    return base64.b64encode(stream.getvalue()).decode()
