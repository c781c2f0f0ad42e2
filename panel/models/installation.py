"""What an installation writes down about itself."""

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model


class InstallationValue(Model):
    """One fact about the installation: which secret keys it has used, and that its database could be written."""

    __tablename__ = "installation_values"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)
