"""The operators' own catalog of images, read anew every hour."""

import structlog

from panel.core.db import session
from panel.core.errors import Problem
from panel.services import image_catalog, settings
from panel.services.media.remote_file import RemoteFile

log = structlog.get_logger()

MAX_CATALOG_BYTES = 8 * 1024**2


def refresh():
    """Takes over what is at the address that operators set; without one the panel's own catalog counts. What cannot be
    read changes nothing."""
    url = settings.get().image_catalog_url
    session.commit()
    try:
        image_catalog.replace(fetch_catalog(url) if url else "[]")
    except Problem as error:
        session.rollback()
        return log.warning("catalog_not_read", error=error.message)
    session.commit()


def fetch_catalog(url):
    with RemoteFile(url, max_bytes=MAX_CATALOG_BYTES) as source:
        found = bytearray()
        while portion := source.read(2**20):
            found += portion
    return found.decode(errors="replace")
