"""A finished image, as the catalog describes it."""

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
    """For people."""
    distro: str
    release: str
    version: str
    """The publisher's major version."""
    publisher_version: str
    """The exact version, when the image was built."""
    min_disk_gb: int
    min_memory_mb: int
    cloudinit: bool
    """Whether it reads a NoCloud seed."""
    secure_boot: bool
    """Whether it also starts by UEFI with secure boot."""
    size: int
    """Bytes of the file."""
    virtual_size: int
    """Bytes a guest sees; a disk made from the image is at least that."""
    sha256: str
    build_date: date


def describe_image(path: Path, **facts) -> BuiltImage:
    """The finished file together with what can be read off it."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(24)  # the qcow2 header keeps the size a guest sees here
        virtual_size = int.from_bytes(file.read(8))
    return BuiltImage(
        path=path,
        size=path.stat().st_size,
        virtual_size=virtual_size,
        sha256=sha256,
        build_date=clock.now().date(),
        **facts,
    )
