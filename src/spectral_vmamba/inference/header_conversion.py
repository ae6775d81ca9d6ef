"""Headers of older checkpoints under the names of today."""

from typing import Any


def convert_format_3(header: dict[str, Any]) -> dict[str, Any]:
    """Format 3 had `preprocessing.canonical`, which is the frame "quarter" of format 4.

    Its model options are renamed where they are checked. Nothing else is looked at: the header is checked afterwards.
    """
    preprocessing = header.get("preprocessing")
    if not isinstance(preprocessing, dict) or "canonical" not in preprocessing:
        return header
    converted = {key: value for key, value in preprocessing.items() if key != "canonical"}
    return {**header, "preprocessing": {**converted, "frame": "quarter" if preprocessing["canonical"] else "none"}}
