"""Rescue: an instance boots another system, for repairs."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import EncryptedText, Model


class Rescue(Model):
    """While the row exists, the instance boots the rescue system at every start."""

    __tablename__ = "rescues"

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    since: Mapped[datetime]
    username: Mapped[str] = mapped_column(String(32), default="root")
    password: Mapped[str] = mapped_column(EncryptedText)
