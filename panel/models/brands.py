"""Brands of the installation and their images."""

from sqlalchemy import LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class Brand(TimestampMixin, Model):
    """A name, images, colors, links and a sender. Without a row for the default brand, it has the built-in values."""

    __tablename__ = "brands"

    host: Mapped[str | None] = mapped_column(unique=True)
    """The host name of its pages; null for the default brand."""
    is_default: Mapped[bool | None] = mapped_column(unique=True)
    """True for the default brand, null for all others, so that there is only one."""
    name: Mapped[str] = mapped_column(String(64))
    accent: Mapped[str | None] = mapped_column(String(7))
    logo: Mapped[str | None] = mapped_column(String(64))
    """Digest of an image."""
    favicon: Mapped[str | None] = mapped_column(String(64))
    sign_in_text: Mapped[str] = mapped_column(Text, default="")
    support_url: Mapped[str | None] = mapped_column(String(500))
    terms_url: Mapped[str | None] = mapped_column(String(500))
    privacy_url: Mapped[str | None] = mapped_column(String(500))
    imprint_url: Mapped[str | None] = mapped_column(String(500))
    sender_name: Mapped[str | None] = mapped_column(String(64))
    sender_address: Mapped[str | None]


class BrandImage(Model):
    """An image, stored once for all brands that use it."""

    __tablename__ = "brand_images"
    is_audit_part = True

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    """SHA-256 of the content, in its URL."""
    media_type: Mapped[str] = mapped_column(String(32))
    content: Mapped[bytes] = mapped_column(LargeBinary)
