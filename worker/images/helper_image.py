"""The files of the image that reads backups, as workers find them in the data directory."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from panel.services.backup_files.sessions import IMAGE_DESCRIPTION_FILE
from panel.services.microvms.images import ImageFile, make_files_key
from worker.images.sandbox_builder import SandboxImage


@dataclass(frozen=True)
class HelperImage:
    """The same facts as those of an image of micro VMs. Paths are relative to the data directory."""

    label: str
    files_key: str
    """Made of the checksums, so that nodes get new files under new names."""
    disk_path: str
    disk_size: int
    kernel_path: str
    kernel_size: int
    initrd_path: str
    initrd_size: int
    kernel_options: str


def write_description(data_dir: Path, image: SandboxImage) -> HelperImage:
    disk, kernel, initrd = (
        ImageFile(str(file.path.relative_to(data_dir)), file.size, file.sha256)
        for file in (image.disk, image.kernel, image.initrd)
    )
    description = HelperImage(
        label=image.disk.label,
        files_key=make_files_key(disk, kernel, initrd),
        disk_path=disk.path,
        disk_size=disk.size,
        kernel_path=kernel.path,
        kernel_size=kernel.size,
        initrd_path=initrd.path,
        initrd_size=initrd.size,
        kernel_options=image.kernel_options,
    )
    path = data_dir / IMAGE_DESCRIPTION_FILE
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(description)))
    temporary.chmod(0o600)
    os.replace(temporary, path)
    return description


def read_description(data_dir: Path) -> HelperImage | None:
    """Return the image, or None when it was not built."""
    try:
        return HelperImage(**json.loads((data_dir / IMAGE_DESCRIPTION_FILE).read_text()))
    except FileNotFoundError:
        return None
