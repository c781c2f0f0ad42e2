"""The files of micro VM images on nodes.

All three have the name that is made from their checksums. The disk is copied last, so a storage that has it has the
other two as well.
"""

from panel.core import context
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import MicrovmImage
from worker.nodes import base


def make_kernel_name(key):
    return f"{key}.kernel"


def make_initrd_name(key):
    return f"{key}.initrd"


def build_disk_image(image):
    return base.Image(f"{image.files_key}.qcow2", get_path(image.disk_path), image.disk_size)


def get_path(path):
    return context.current().config.data_dir / path


def get_image(microvm):
    """Return the micro VM's image. Raise NotFound when it was deleted."""
    image = session.get(MicrovmImage, microvm.image_id or "", populate_existing=True)
    if image is None:
        raise NotFound(message("The image was deleted in the meantime. Choose another one."))
    return image


def ensure_files(work, image, pool):
    """Copy the image's files to the storage unless they are there. Tasks that need the same copy wait for it."""
    node_image = build_disk_image(image)
    if work.node.has_image(pool, node_image):
        return
    work.step_exclusive(message("Copying the image {image:.100}", image=image.label), 10)
    if work.node.has_image(pool, node_image):
        return
    upload_kernel_file(work, pool, make_kernel_name(image.files_key), image.kernel_path, image.kernel_size)
    upload_kernel_file(work, pool, make_initrd_name(image.files_key), image.initrd_path, image.initrd_size)
    work.node.put_image(pool, node_image, work.report_progress)


def upload_kernel_file(work, pool, name, path, size):
    with get_path(path).open("rb") as source:
        work.node.upload_media(pool, name, source, size, work.report_progress, is_kernel=True)
