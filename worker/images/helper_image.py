"""The files of the image that reads backups, as workers find them in the data directory."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from panel.services.microvms.images import make_files_key
from worker.images.sandbox_builder import SandboxImage

DESCRIPTION_FILE = "images/backup-files.json"


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
    files = (image.disk, image.kernel, image.initrd)
    key = make_files_key(*files)
    paths = [str(file.path.relative_to(data_dir)) for file in files]
    sizes = [file.size for file in files]
    facts = (value for pair in zip(paths, sizes, strict=True) for value in pair)
    description = HelperImage(image.disk.label, key, *facts, image.kernel_options)  # type: ignore[arg-type]
    path = data_dir / DESCRIPTION_FILE
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(description)))
    temporary.chmod(0o600)
    os.replace(temporary, path)
    return description


def read_description(data_dir: Path) -> HelperImage | None:
    """Return the image, or None when it was not built."""
    try:
        return HelperImage(**json.loads((data_dir / DESCRIPTION_FILE).read_text()))
    except FileNotFoundError:
        return None
