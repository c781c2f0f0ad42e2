"""What machines show on their screens."""

import libvirt

from panel.core.messages import message
from worker.nodes import png
from worker.nodes.base import Refused
from worker.nodes.libvirt.machines import get_domain

READ_BYTES = 256 * 1024
MAX_IMAGE_BYTES = 64 * 1024**2


def take_screenshot(connection: libvirt.virConnect, machine_id: str) -> bytes:
    domain = get_domain(connection, machine_id)
    if not domain.isActive():
        raise Refused(message("The machine is off."), f"machine {machine_id}")
    stream = connection.newStream()
    try:
        domain.screenshot(stream, 0, 0)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in (libvirt.VIR_ERR_OPERATION_UNSUPPORTED, libvirt.VIR_ERR_INVALID_ARG):
            raise
        raise Refused(message("The machine has no screen."), f"machine {machine_id}: {error}") from error
    image = bytearray()
    while data := stream.recv(READ_BYTES):
        image += data
        if len(image) > MAX_IMAGE_BYTES:
            stream.abort()
            raise Refused(message("The screen is too large."), f"machine {machine_id}")
    stream.finish()
    content = bytes(image)
    try:
        return content if content.startswith(png.SIGNATURE) else png.convert_ppm(content)
    except ValueError as error:
        raise Refused(message("The screen cannot be read."), f"machine {machine_id}: {content[:20]!r}") from error
