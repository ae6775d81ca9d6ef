"""HTML reports in one self-contained file: text, tables, embedded figures and code."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO

from matplotlib.figure import Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; }
th { text-align: left; } td { text-align: right; } td:first-child { text-align: left; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; } .note { color: #666; }
"""


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, a table (the first row has the column names), figures with captions, and code."""

    title: str
    paragraphs: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    figures: Sequence[tuple[Figure, str]] = ()
    code: str = ""


def format_html(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """Return the report as one HTML page. All text is escaped; figures are embedded as PNG."""
    body = "\n".join(_format_section(section) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n{body}\n</body>\n</html>\n"
    )


def _format_section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    if section.table:
        heading, *rows = section.table
        parts.append(
            "<table>" + _format_row(heading, "th") + "".join(_format_row(row, "td") for row in rows) + "</table>"
        )
    for figure, caption in section.figures:
        parts.append(f'<p><img alt="{escape(caption)}" src="data:image/png;base64,{_encode_png(figure)}"></p>')
        parts.append(f'<p class="note">{escape(caption)}</p>')
    if section.code:
        parts.append(f"<pre>{escape(section.code)}</pre>")
    return "\n".join(parts)


def _format_row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _encode_png(figure: Figure) -> str:
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return base64.b64encode(stream.getvalue()).decode()
