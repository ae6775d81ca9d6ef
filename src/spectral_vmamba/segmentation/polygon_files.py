"""Polygons as files: GeoJSON for each image, and one COCO JSON for all of them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Int

from spectral_vmamba.segmentation.georeference import Georeference
from spectral_vmamba.segmentation.polygons import Polygon
from spectral_vmamba.segmentation.ring_simplification import simplify_ring
from spectral_vmamba.utils.atomic_files import atomic_write


def write_geojson(
    path: Path,
    image: str,
    polygons: Sequence[Polygon],
    classes: Sequence[str],
    georeference: Georeference | None = None,
    simplify: float = 0.0,
) -> None:
    """Write a FeatureCollection with one polygon per region: its class, class_id, area in pixels, and image.

    Coordinates are those of `polygons` (pixels, y downward), or map coordinates with a member `crs`; exteriors are
    counterclockwise and holes clockwise in either. `simplify` is a tolerance in pixels.
    """
    crs = georeference.geojson_crs() if georeference else None
    with _open_text(path) as file:
        file.write('{"type": "FeatureCollection"' + (f', "crs": {_json(crs)}' if crs else "") + ', "features": [')
        for i, polygon in enumerate(polygons):
            rings = [simplify_ring(ring, simplify) for ring in polygon.rings]
            if georeference:
                rings = [georeference.to_map(ring[:: -1 if georeference.mirrors else 1]) for ring in rings]
            feature = {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [ring.tolist() for ring in rings]},
                "properties": {
                    "class": classes[polygon.class_id],
                    "class_id": polygon.class_id,
                    "area": polygon.area,
                    "image": image,
                },
            }
            file.write((",\n" if i else "\n") + _json(feature))
        file.write("\n]}\n")


@contextmanager
def write_coco(path: Path, classes: Sequence[str]) -> Iterator["CocoFile"]:
    """Yield a COCO file to add images to; it replaces `path` at the end of the block.

    Categories have the ids of the classes in the masks, from 0. A region without holes is a polygon; one with holes is
    run-length encoded, which COCO's polygons cannot express.
    """
    with _open_text(path) as file:
        categories = [{"id": i, "name": name} for i, name in enumerate(classes)]
        file.write(f'{{"categories": {_json(categories)},\n"annotations": [')
        coco = CocoFile(file)
        yield coco
        file.write(f'\n],\n"images": {_json(coco.images)}}}\n')


class CocoFile:
    """A COCO file that is being written: annotations go to the file, the list of images stays in memory."""

    def __init__(self, file: IO[str]):
        self.file = file
        self.images: list[dict[str, Any]] = []
        self.annotations = 0

    def add(self, image: str, height: int, width: int, polygons: Sequence[Polygon], simplify: float = 0.0) -> None:
        """Add an image and its regions; `simplify` is a tolerance in pixels, for regions without holes."""
        self.images.append({"id": len(self.images) + 1, "file_name": image, "height": height, "width": width})
        for polygon in polygons:
            self.annotations += 1
            annotation = {
                "id": self.annotations,
                "image_id": len(self.images),
                "category_id": polygon.class_id,
                "segmentation": _segmentation(polygon, height, width, simplify),
                "area": polygon.area,
                "bbox": list(polygon.bounds),
                "iscrowd": 0,
            }
            self.file.write((",\n" if self.annotations > 1 else "\n") + _json(annotation))


def encode_runs(polygon: Polygon, height: int, width: int) -> dict[str, Any]:
    """COCO's uncompressed run lengths: pixels outside and inside in turn, column by column."""
    begins, ends = [], []
    for ring in polygon.rings:
        steps = np.diff(ring, axis=0)
        tops, bottoms = steps[:, 0] > 0, steps[:, 0] < 0
        begins.append(_positions(ring[:-1][tops], steps[tops, 0], height))
        ends.append(_positions(ring[1:][bottoms], -steps[bottoms, 0], height))
    first, last = np.sort(np.concatenate(begins)), np.sort(np.concatenate(ends))
    separate = last[:-1] < first[1:]  # else the run continues at the top of the next column
    first, last = first[np.append(True, separate)], last[np.append(separate, True)]
    limits = np.append(np.stack([first, last], 1).reshape(-1), height * width)
    counts = np.diff(limits, prepend=0)
    return {"size": [height, width], "counts": (counts if counts[-1] else counts[:-1]).tolist()}


def _positions(left_ends: Int[np.ndarray, "n 2"], lengths: Int[np.ndarray, "n"], height: int) -> Int[np.ndarray, "m"]:
    """Positions, column by column, of the pixels below horizontal edges."""
    offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return (np.repeat(left_ends[:, 0], lengths) + offsets) * height + np.repeat(left_ends[:, 1], lengths)


def _segmentation(polygon: Polygon, height: int, width: int, simplify: float) -> list[list[int]] | dict[str, Any]:
    exterior, *holes = polygon.rings
    if holes:
        return encode_runs(polygon, height, width)
    return [simplify_ring(exterior, simplify)[:-1].reshape(-1).tolist()]


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", errors="replace") as file:
        yield file


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
