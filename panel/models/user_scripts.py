"""Customers' scripts that run when a machine boots for the first time."""

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import EncryptedText, Model, TimestampMixin
from panel.models.accounts import Account

CLOUD_CONFIG_HEADER = "#cloud-config"
CLOUD_CONFIG_TYPES = ("cloud-init", "cloud-config")
"""Types whose content is cloud-init configuration, even without its first line."""
SCRIPT_INTERPRETERS = {
    "bash": "/bin/bash",
    "sh": "/bin/sh",
    "python": "/usr/bin/env python3",
    "perl": "/usr/bin/env perl",
}


class UserScript(TimestampMixin, Model):
    """A script or a piece of cloud-init configuration. The content may be secret, so it is encrypted."""

    __tablename__ = "user_scripts"
    __table_args__ = (Index("ix_user_scripts_account_id_name", "account_id", "name", "id"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    type: Mapped[str] = mapped_column(String(50))
    content: Mapped[str] = mapped_column(EncryptedText)
    description: Mapped[str] = mapped_column(default="")
    shebang: Mapped[str] = mapped_column(default="")
    """The interpreter, if the first line does not name it: `/bin/bash`, with or without `#!`."""

    account: Mapped[Account] = relationship()

    @property
    def is_cloud_config(self) -> bool:
        declared = self.type.lower() in CLOUD_CONFIG_TYPES and not self.content.startswith("#!")
        return declared or self.content.startswith(CLOUD_CONFIG_HEADER)

    @property
    def program(self) -> str:
        """The script with its first line, as an executable file."""
        if self.content.startswith("#!"):
            return self.content
        reader = self.shebang.strip().removeprefix("#!").strip() or SCRIPT_INTERPRETERS.get(
            self.type.lower(), "/bin/sh"
        )
        return f"#!{reader}\n{self.content}"

    @property
    def choice(self) -> tuple[str, str]:
        """The label of its checkbox."""
        return self.id, self.name

    @property
    def owner_email(self) -> str:
        return self.account.email
