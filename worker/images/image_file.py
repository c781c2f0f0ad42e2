"""A built image and the facts of its catalog row."""

import hashlib
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from panel.core import clock


@dataclass(frozen=True)
class BuiltImage:
    """One qcow2 file and the facts of its catalog row."""

    path: Path
    name: str
    label: str
    """For users."""
    distro: str
    release: str
    version: str
    """The publisher's major version."""
    publisher_version: str
    """The exact version at the time of the build."""
    min_disk_gb: int
    min_memory_mb: int
    cloudinit: bool
    """Whether it reads a NoCloud seed."""
    secure_boot: bool
    """Whether it also starts by UEFI with secure boot."""
    size: int
    """Bytes of the file."""
    virtual_size: int
    """Bytes a guest sees; a disk made from the image has at least that size."""
    sha256: str
    build_date: date


def describe_image(path: Path, **facts) -> BuiltImage:
    """Return the built image; sizes and checksum are read from the file."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(24)  # the offset of the virtual size in the qcow2 header
        virtual_size = int.from_bytes(file.read(8))
    return BuiltImage(
        path=path,
        size=path.stat().st_size,
        virtual_size=virtual_size,
        sha256=sha256,
        build_date=clock.now().date(),
        **facts,
    )
