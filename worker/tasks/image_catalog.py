"""The operators' own catalog of images, read anew every hour."""

import structlog

from panel.core.db import session
from panel.core.errors import Problem
from panel.services import image_catalog, settings
from panel.services.media.remote_file import Source

log = structlog.get_logger()

LARGEST = 8 * 1024**2


def refresh():
    """Takes over what is at the address that operators set; without one the panel's own catalog counts. What cannot be
    read changes nothing."""
    url = settings.get().image_catalog_url
    session.commit()
    try:
        image_catalog.replace(read(url) if url else "[]")
    except Problem as error:
        session.rollback()
        return log.warning("catalog_not_read", error=error.message)
    session.commit()


def read(url):
    with Source(url, most=LARGEST) as source:
        found = bytearray()
        while portion := source.read(2**20):
            found += portion
    return found.decode(errors="replace")
