"""Images, from which machines are created."""

from datetime import date, datetime
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.hypervisors import Storage

if TYPE_CHECKING:
    from panel.models.isos import MediaDownload


class DownloadErrorMixin:
    """The latest error of a file's downloads, over all storages."""

    if TYPE_CHECKING:
        downloads: Mapped[list["MediaDownload"]]

    @property
    def problem(self) -> "MediaDownload | None":
        failed = [download for download in self.downloads if download.error]
        return max(failed, key=lambda download: download.error_at or download.created_at, default=None)

    @property
    def download_error(self) -> str | None:
        return self.problem.error if self.problem else None

    @property
    def download_error_at(self) -> datetime | None:
        return self.problem.error_at if self.problem else None


class Image(DownloadErrorMixin, TimestampMixin, Model):
    """A disk with an operating system. The file is in the panel's image folder; nodes get copies when they need one."""

    __tablename__ = "images"
    live_permissions = ("images.view", "admin:images:read")
    __table_args__ = (
        Index("ix_images_purpose_distro_name", "purpose", "distro", "name"),
        Index(
            "uq_images_name_catalog",
            "name",
            unique=True,
            sqlite_where=text("account_id is null"),
            postgresql_where=text("account_id is null"),
        ),
        Index("ix_images_account_id_id", "account_id", "id"),
    )

    name: Mapped[str]
    """Unique in the catalog. Owners name captured images freely."""
    label: Mapped[str]
    distro: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(64))
    type: Mapped[str] = mapped_column(String(16), default="linux")
    format: Mapped[str] = mapped_column(String(16), default="qcow2")
    purpose: Mapped[str] = mapped_column(String(32), default="general")
    public: Mapped[bool] = mapped_column(default=True)
    enabled: Mapped[bool] = mapped_column(default=True)
    cloudinit: Mapped[bool] = mapped_column(default=True)
    filename: Mapped[str] = mapped_column(default="")
    size: Mapped[int] = mapped_column(BigInteger, default=0)
    sha256: Mapped[str] = mapped_column(String(64), default="")
    min_disk: Mapped[int] = mapped_column(default=1)
    """GiB."""
    min_ram: Mapped[int] = mapped_column(default=0)
    """MiB."""
    description: Mapped[str | None] = mapped_column(Text)
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    """The owner of a captured image; empty for the catalog."""

    status: Mapped[str] = mapped_column(String(16), default="available")
    """`available`; before that `downloading` or (captured) `creating`; `error` when that failed."""
    url: Mapped[str | None] = mapped_column(Text)
    """Where its file is downloaded from, if anywhere."""
    expected_sha256: Mapped[str | None] = mapped_column(String(64))
    """The hash that the download must have, if one was given; `sha256` is that of the existing file."""
    publisher_version: Mapped[str | None] = mapped_column(String(64))
    """The exact version, where `version` may be only the major one."""
    build_date: Mapped[date | None]
    release: Mapped[str | None] = mapped_column(String(64))
    """The publisher's name of the version, like `bookworm`."""
    variant: Mapped[str | None] = mapped_column(String(64))
    interface: Mapped[str] = mapped_column(String(16), default="virtio")
    """The bus of its disk."""
    secure_boot: Mapped[bool] = mapped_column(default=False)
    """Whether its boot loader is signed, so it also starts by UEFI with secure boot."""
    cloud_config: Mapped[str | None] = mapped_column(Text)
    """First-boot configuration from the publisher or operator; the customer's overrides it."""
    catalog_key: Mapped[str | None] = mapped_column(String(128))
    """The row of the upstream catalog that it is refreshed from."""
    instance_id: Mapped[str | None] = mapped_column(String(36))
    """The instance that it was captured from, which may be deleted."""
    download_reset_at: Mapped[datetime | None]

    copies: Mapped[list["ImageCopy"]] = relationship(cascade="all, delete-orphan")
    downloads: Mapped[list["MediaDownload"]] = relationship(
        back_populates="image", cascade="all, delete-orphan", order_by="MediaDownload.id", passive_deletes=True
    )


class ImageCopy(Model):
    """A complete copy of an image in a storage."""

    __tablename__ = "image_copies"
    is_audit_part = True

    image_id: Mapped[str] = mapped_column(ForeignKey("images.id", ondelete="cascade"), primary_key=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id", ondelete="cascade"), primary_key=True, index=True)

    storage: Mapped[Storage] = relationship()
