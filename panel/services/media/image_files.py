"""Image files in the panel's folder: reading their size and updating the image's row."""

from pathlib import Path

from panel.core.errors import Problem
from panel.core.messages import message
from panel.models import Image

QCOW2_MAGIC = b"QFI\xfb"
BYTES_PER_GIB = 1024**3
EXTERNAL_DATA_BIT = 4
"""The feature bit of a qcow2 header which says that the data are in another file, possibly any file of the node."""


def read_virtual_size(path: Path) -> int:
    """Return the size that a guest sees, in bytes.

    Raise Problem if the file is no qcow2 image or needs another file.
    """
    with path.open("rb") as file:
        header = file.read(80)
    if header[:4] != QCOW2_MAGIC or len(header) < 32:
        raise Problem(message("The file is not a disk image in the qcow2 format."))
    if int.from_bytes(header[8:16]) or int.from_bytes(header[72:80]) & EXTERNAL_DATA_BIT:
        raise Problem(message("The image is based on another file, so it cannot be used alone."))
    return int.from_bytes(header[24:32])


def mark_complete(image: Image, sha256: str, virtual_size: int) -> None:
    """Mark the image as available: machines can be created from it."""
    if image.sha256 and image.sha256 != sha256:
        image.copies.clear()
    image.sha256, image.filename = sha256, f"{image.id}-{sha256[:16]}.qcow2"
    image.min_disk = max(image.min_disk, -(-virtual_size // BYTES_PER_GIB))
    image.status = "available"


def mark_failed(image: Image | None, error: str) -> None:
    """Mark the image as failed, unless it was available before."""
    if image is not None and image.status == "downloading":
        image.status = "error"
