"""Removing files of micro VM images from the data directory when no image has them any more."""

import re
from pathlib import Path

import structlog
from sqlalchemy import select

from panel.core import context
from panel.core.db import session
from panel.models import MicrovmImage
from worker.engine.registry import periodic

log = structlog.get_logger()

BUILT_FILE_NAME = re.compile(r"microvm-([0-9a-f-]{36})\.(qcow2|kernel|initrd)")
"""File name of an image that was built from another one (`worker.tasks.microvm_image_builds.make_path`)."""


@periodic(seconds=3600)
def sweep() -> None:
    """Remove the files of built images whose row is gone, such as after a worker was killed."""
    remove_unused()


def remove_unused(*paths: str) -> None:
    """Remove these files, relative to the data directory, unless an image has them, and the files of built images
    without a row."""
    data_dir = context.current().config.data_dir
    folder = data_dir / "images"
    built = {path: match[1] for path in folder.glob("*") if (match := BUILT_FILE_NAME.fullmatch(path.name))}
    columns = MicrovmImage.id, MicrovmImage.disk_path, MicrovmImage.kernel_path, MicrovmImage.initrd_path
    rows = session.execute(select(*columns)).all()
    session.commit()
    image_ids, used_paths = {row.id for row in rows}, {data_dir / path for row in rows for path in row[1:] if path}
    candidates = {data_dir / "images" / Path(path).name for path in paths} - built.keys()
    unused = {path for path in candidates if path not in used_paths}
    unused |= {path for path, image_id in built.items() if image_id not in image_ids}
    for path in unused:
        path.unlink(missing_ok=True)
        log.info("microvm_image_file_removed", name=path.name)
