"""Values that an installation records about itself."""

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model


class InstallationValue(Model):
    """One value about the installation, such as the secret keys it has used and the check that its database is
    writable.
    """

    __tablename__ = "installation_values"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)
