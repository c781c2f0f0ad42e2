"""Optical media for machines, and downloads of ISOs and images."""

from datetime import datetime
from typing import cast

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.hypervisors import Storage
from panel.models.images import DownloadErrorMixin, Image


class Iso(DownloadErrorMixin, TimestampMixin, Model):
    """An optical medium that nodes download from its URL. It belongs to the platform (no account) or to a customer."""

    __tablename__ = "isos"
    live_permissions = ("isos.view", "admin:images:read")
    __table_args__ = (Index("ix_isos_account_id_name", "account_id", "name"), Index("ix_isos_name_id", "name", "id"))

    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    filename: Mapped[str]
    url: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str | None] = mapped_column(String(64))
    """The hash that the file must have, if one was given."""
    public: Mapped[bool] = mapped_column(default=False)
    """Every customer may mount it."""
    enabled: Mapped[bool] = mapped_column(default=True)
    size: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes, known once a node has downloaded it."""
    download_reset_at: Mapped[datetime | None]
    """When a restart of the downloads was last requested."""

    downloads: Mapped[list["MediaDownload"]] = relationship(
        back_populates="iso", cascade="all, delete-orphan", order_by="MediaDownload.id", passive_deletes=True
    )


class MediaDownload(TimestampMixin, Model):
    """The download of one file to one place: an ISO to a node's storage, or an image to the panel's own folder (no
    storage). `updated_at` is when it last progressed (ISO-21).
    """

    __tablename__ = "media_downloads"
    __table_args__ = (
        CheckConstraint("(iso_id is null) <> (image_id is null)", name="one_file"),
        Index("ix_media_downloads_iso_id_storage_id", "iso_id", "storage_id", unique=True),
        Index("ix_media_downloads_status_next_attempt_at", "status", "next_attempt_at"),
    )

    iso_id: Mapped[str | None] = mapped_column(ForeignKey("isos.id", ondelete="cascade"))
    image_id: Mapped[str | None] = mapped_column(ForeignKey("images.id", ondelete="cascade"), unique=True)
    storage_id: Mapped[str | None] = mapped_column(ForeignKey("storages.id", ondelete="cascade"), index=True)
    status: Mapped[str] = mapped_column(String(16), default="waiting")
    """`waiting` (for its next attempt), `running` (queued or under way), `ready`."""
    volume: Mapped[str | None] = mapped_column(String(64))
    """The storage's name of the finished file. Each attempt uses another name."""
    task_id: Mapped[str | None] = mapped_column(String(36), index=True)
    """The task of the current attempt. Other tasks that find this id give up."""
    started_at: Mapped[datetime | None]
    """When that attempt was requested."""
    bytes_done: Mapped[int | None] = mapped_column(BigInteger)
    bytes_total: Mapped[int | None] = mapped_column(BigInteger)
    error: Mapped[str | None] = mapped_column(MessageText)
    error_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    """Failed attempts in a row."""
    next_attempt_at: Mapped[datetime | None]

    iso: Mapped[Iso | None] = relationship(back_populates="downloads")
    image: Mapped[Image | None] = relationship(back_populates="downloads")
    storage: Mapped[Storage | None] = relationship()

    @property
    def file(self) -> Iso | Image:
        return cast(Iso | Image, self.iso or self.image)  # the constraint `one_file` lets exactly one be set

    @property
    def hypervisor_name(self) -> str | None:
        return self.storage.hypervisor.name if self.storage else None

    @property
    def hypervisor_id(self) -> str | None:
        return self.storage.hypervisor_id if self.storage else None
