"""Where the pixels of a georeferenced image are on the map."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Num


@dataclass(frozen=True)
class Georeference:
    """The affine transform (a, b, c, d, e, f) from pixel edges to the map and the coordinate reference system.

    x = a · column + b · row + c and y = d · column + e · row + f; column 0, row 0 is the outer corner of the first
    pixel. `crs` is an authority code such as "EPSG:32633", or WKT; empty if the file has a transform only.
    """

    transform: tuple[float, float, float, float, float, float]
    crs: str = ""

    @property
    def determinant(self) -> float:
        a, b, _, d, e, _ = self.transform
        return a * e - b * d

    @property
    def pixel_area(self) -> float:
        """The area of a pixel in square map units."""
        return abs(self.determinant)

    @property
    def mirrors(self) -> bool:
        """Whether the map has the other orientation than (column, row), as maps with north at the top have."""
        return self.determinant < 0

    def to_map(self, points: Num[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """Map coordinates (x, y) of pixel edges (column, row)."""
        a, b, c, d, e, f = self.transform
        x, y = points[:, 0].astype(np.float64), points[:, 1].astype(np.float64)
        return np.stack([a * x + b * y + c, d * x + e * y + f], 1)

    def geojson_crs(self) -> dict[str, Any] | None:
        """The member `crs` of a GeoJSON file; readers of the 2008 format and GDAL know it. None without a CRS."""
        if not self.crs:
            return None
        authority, _, code = self.crs.partition(":")
        is_code = authority.isalpha() and code.isalnum()
        name = f"urn:ogc:def:crs:{authority}::{code}" if is_code else self.crs
        return {"type": "name", "properties": {"name": name}}
