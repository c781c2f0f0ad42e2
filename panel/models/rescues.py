"""Rescue: an instance that boots another system to be mended."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import EncryptedText, Model


class Rescue(Model):
    """The instance is in rescue while there is such a row: every start boots the rescue system."""

    __tablename__ = "rescues"

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    since: Mapped[datetime]
    username: Mapped[str] = mapped_column(String(32), default="root")
    password: Mapped[str] = mapped_column(EncryptedText)
