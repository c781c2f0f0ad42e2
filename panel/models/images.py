"""What machines are made from."""

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.db import Dated, Model
from panel.models.hypervisors import Storage


class Image(Dated, Model):
    """An operating system disk. The file lies in the panel's image folder; nodes get copies when they need one."""

    __tablename__ = "images"
    __table_args__ = (Index("ix_images_purpose_distro_name", "purpose", "distro", "name"),)

    name: Mapped[str] = mapped_column(unique=True)
    label: Mapped[str]
    distro: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(64))
    type: Mapped[str] = mapped_column(String(16), default="linux")
    format: Mapped[str] = mapped_column(String(16), default="qcow2")
    purpose: Mapped[str] = mapped_column(String(32), default="general")
    public: Mapped[bool] = mapped_column(default=True)
    enabled: Mapped[bool] = mapped_column(default=True)
    cloudinit: Mapped[bool] = mapped_column(default=True)
    filename: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    min_disk: Mapped[int] = mapped_column(default=1)
    """GiB."""
    min_ram: Mapped[int] = mapped_column(default=0)
    """MiB."""
    description: Mapped[str | None] = mapped_column(Text)
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """Whose captured image this is; empty for the catalog."""

    copies: Mapped[list["ImageCopy"]] = relationship(cascade="all, delete-orphan")


class ImageCopy(Model):
    """An image that lies complete in a storage."""

    __tablename__ = "image_copies"

    image_id: Mapped[str] = mapped_column(ForeignKey("images.id", ondelete="cascade"), primary_key=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id", ondelete="cascade"), primary_key=True, index=True)

    storage: Mapped[Storage] = relationship()
