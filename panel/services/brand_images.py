"""Logos and favicons: PNG and WebP. SVG is not accepted, because it can contain scripts and refer to other servers."""

from hashlib import sha256
from struct import unpack

from sqlalchemy import delete, exists, or_

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Brand, BrandImage
from panel.schemas.brands import MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def store(content: bytes, error_field: str) -> str:
    """Store an image and return its digest. Raise Invalid for `error_field` when it is unsuitable."""
    error = image_error(content)
    if error:
        raise Invalid(error, **{error_field: error})
    digest = sha256(content).hexdigest()
    if session.get(BrandImage, digest) is None:
        media_type = "image/png" if content.startswith(PNG_SIGNATURE) else "image/webp"
        session.add(BrandImage(digest=digest, media_type=media_type, content=content))
        session.flush()
    return digest


def image_error(content: bytes) -> str | None:
    """Return why the bytes are no suitable image, or None."""
    if len(content) > MAX_IMAGE_BYTES:
        return message("The image may have at most {maximum} KiB.", maximum=MAX_IMAGE_BYTES // 1024)
    size = read_size(content)
    if size is None:
        return message("Must be a PNG or WebP image.")
    if not 1 <= min(size) <= max(size) <= MAX_IMAGE_PIXELS:
        return message("The image may have at most {maximum} by {maximum} pixels.", maximum=MAX_IMAGE_PIXELS)
    return None


def read_size(content: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG or WebP image; None for other content."""
    if len(content) < 30:
        return None
    if content.startswith(PNG_SIGNATURE) and content[12:16] == b"IHDR":
        return unpack(">II", content[16:24])
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return None
    if content[12:16] == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        width, height = unpack("<HH", content[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if content[12:16] == b"VP8L" and content[20] == 0x2F:
        bits = int.from_bytes(content[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if content[12:16] == b"VP8X":
        return int.from_bytes(content[24:27], "little") + 1, int.from_bytes(content[27:30], "little") + 1
    return None


def get(digest: str) -> BrandImage:
    image = session.get(BrandImage, digest)
    if image is None:
        raise NotFound(message("No such image."))
    return image


def delete_unused() -> None:
    """Delete the images that no brand has."""
    is_used = exists().where(or_(Brand.logo == BrandImage.digest, Brand.favicon == BrandImage.digest))
    session.execute(delete(BrandImage).where(~is_used).execution_options(synchronize_session=False))
