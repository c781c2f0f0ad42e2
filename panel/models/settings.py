"""Settings of the whole platform."""

from sqlalchemy import JSON, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model


class Setting(Model):
    """One setting that differs from its default. Names and types: panel.schemas.settings."""

    __tablename__ = "settings"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[object] = mapped_column(JSON)
