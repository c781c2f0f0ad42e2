"""Refreshing the image catalog, every hour."""

import structlog

from panel.core.db import session
from panel.core.errors import Problem
from panel.services import image_catalog, settings
from panel.services.media.remote_file import RemoteFile
from worker.engine.registry import periodic

log = structlog.get_logger()

MAX_CATALOG_BYTES = 8 * 1024**2


@periodic(seconds=3600)
def refresh():
    """Replace the catalog by the one at the operators' URL; without a URL, use the panel's own.

    A catalog that cannot be read changes nothing.
    """
    url = settings.get().image_catalog_url
    session.commit()
    try:
        image_catalog.replace(fetch_catalog(url) if url else "[]")
    except Problem as error:
        session.rollback()
        return log.warning("image_catalog_unavailable", error=error.message)
    session.commit()


def fetch_catalog(url):
    with RemoteFile(url, max_bytes=MAX_CATALOG_BYTES) as source:
        content = bytearray()
        while chunk := source.read(2**20):
            content += chunk
    return content.decode(errors="replace")
