"""From a decoded image to its content's disk, in one resampling, for the frames "moment" and "upright"."""

from dataclasses import dataclass, replace

from PIL import Image

from spectral_vmamba.data.borders import ContentDisk, find_content, whole_disk
from spectral_vmamba.data.turning import turn_to_canonical
from spectral_vmamba.data.views import View
from spectral_vmamba.data.warp import warp_disk
from spectral_vmamba.ops.frames import brightness_direction

_UNTURNED = (1.0, 0.0)


@dataclass(frozen=True)
class DiskTransform:
    """Resize the disk of an image's content; `to_moment` also rotates it until its brightness centroid points up.

    Quarter turns come first and are exact, so that all quarter turns of an image give the same pixels. `crop` is the
    share of the content's disk that is used. With `borders`, a uniform border around the content is left out.
    """

    size: int
    to_moment: bool
    crop: float = 1.0
    borders: bool = True

    def __call__(self, image: Image.Image) -> View:
        turned, quarters = turn_to_canonical(image)
        content = find_content(turned) if self.borders else None
        disk = content or whole_disk(turned.width, turned.height)
        disk = replace(disk, radius=disk.radius * self.crop)
        rotation = self._rotation(turned, disk) if self.to_moment else _UNTURNED
        return View(warp_disk(turned, disk, rotation, self.size), quarters, rotation, content is not None)

    def _rotation(self, image: Image.Image, disk: ContentDisk) -> tuple[float, float]:
        upright = warp_disk(image, disk, _UNTURNED, self.size)
        right, up = brightness_direction(upright[None].float())[0].tolist()
        return up, right


def leave_out_border(image: Image.Image) -> Image.Image:
    """The square around the disk of the content, where an image has a uniform border; other images as they are."""
    content = find_content(image)
    if content is None:
        return image
    x, y, radius = content.x, content.y, content.radius
    return image.crop((round(x - radius), round(y - radius), round(x + radius), round(y + radius)))
