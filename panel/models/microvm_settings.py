"""What an account's new micro VMs get when their creation names nothing else."""

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class MicrovmSettings(TimestampMixin, Model):
    """The defaults of an account. An account without a row has none."""

    __tablename__ = "microvm_settings"

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), unique=True)
    location_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id", ondelete="set null"), index=True)
    image_id: Mapped[str | None] = mapped_column(ForeignKey("microvm_images.id", ondelete="set null"), index=True)
    timeout_seconds: Mapped[int | None]
    on_timeout: Mapped[str | None] = mapped_column(String(8))
    """`kill`, `pause`, or None for what the API does without settings."""
