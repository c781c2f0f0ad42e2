"""The upstream catalog: images of publishers that operators may add to their own."""

from datetime import date

from sqlalchemy import BigInteger, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class CatalogImage(TimestampMixin, Model):
    """A row of the operators' own catalog, as it was last fetched.

    Without rows the panel's built-in catalog applies.
    """

    __tablename__ = "catalog_images"

    key: Mapped[str] = mapped_column(String(128), unique=True)
    label: Mapped[str]
    distro: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(64))
    publisher_version: Mapped[str | None] = mapped_column(String(64))
    release: Mapped[str | None] = mapped_column(String(64))
    variant: Mapped[str | None] = mapped_column(String(64))
    build_date: Mapped[date | None]
    url: Mapped[str] = mapped_column(Text)
    size: Mapped[int | None] = mapped_column(BigInteger)
    sha256: Mapped[str | None] = mapped_column(String(64))
