"""What operators set for the whole platform."""

from sqlalchemy import JSON, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model


class Setting(Model):
    """One setting that is not at its default. Names and types: panel.schemas.settings."""

    __tablename__ = "settings"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[object] = mapped_column(JSON)
