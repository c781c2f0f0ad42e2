"""What machines are made from."""

from datetime import date, datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.hypervisors import Storage


class DownloadErrorMixin:
    """What is wrong with fetching a file: of all places the problem that was noted last."""

    @property
    def problem(self):
        failed = [each for each in self.downloads if each.error]
        return max(failed, key=lambda each: each.error_at, default=None)

    @property
    def download_error(self):
        return self.problem and self.problem.error

    @property
    def download_error_at(self):
        return self.problem and self.problem.error_at


class Image(DownloadErrorMixin, TimestampMixin, Model):
    """An operating system disk. The file lies in the panel's image folder; nodes get copies when they need one."""

    __tablename__ = "images"
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
    """Unique in the catalog; captured ones are called what their owners like."""
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
    """Whose captured image this is; empty for the catalog."""

    status: Mapped[str] = mapped_column(String(16), default="available")
    """`available`; before that `downloading` or (captured) `creating`; `error` when that failed."""
    url: Mapped[str | None] = mapped_column(Text)
    """Where its file is fetched from, if it is."""
    expected_sha256: Mapped[str | None] = mapped_column(String(64))
    """What the file from there must have, when somebody said it; `sha256` is that of the file which is here."""
    publisher_version: Mapped[str | None] = mapped_column(String(64))
    """The exact version, where `version` may be the major one alone."""
    build_date: Mapped[date | None]
    release: Mapped[str | None] = mapped_column(String(64))
    """The publisher's name of the version, like `bookworm`."""
    variant: Mapped[str | None] = mapped_column(String(64))
    interface: Mapped[str] = mapped_column(String(16), default="virtio")
    """How its disk is attached."""
    secure_boot: Mapped[bool] = mapped_column(default=False)
    """Whether it also starts by UEFI with secure boot: its boot loader is signed."""
    cloud_config: Mapped[str | None] = mapped_column(Text)
    """First-boot configuration of the publisher's or operator's own, below the customer's."""
    catalog_key: Mapped[str | None] = mapped_column(String(128))
    """The row of the upstream catalog that it is refreshed from."""
    instance_id: Mapped[str | None] = mapped_column(String(36))
    """The instance that it was captured from, which may be gone."""
    download_reset_at: Mapped[datetime | None]

    copies: Mapped[list["ImageCopy"]] = relationship(cascade="all, delete-orphan")


class ImageCopy(Model):
    """An image that lies complete in a storage."""

    __tablename__ = "image_copies"

    image_id: Mapped[str] = mapped_column(ForeignKey("images.id", ondelete="cascade"), primary_key=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id", ondelete="cascade"), primary_key=True, index=True)

    storage: Mapped[Storage] = relationship()
