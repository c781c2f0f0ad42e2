"""Roles of operators beside the built-in ones."""

from sqlalchemy import JSON, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin
from panel.schemas.constants import MAX_OPERATOR_ROLE_NAME


class OperatorRole(TimestampMixin, Model):
    """What the operators with this role may change. They may see what all operators see."""

    __tablename__ = "operator_roles"
    __table_args__ = (Index("ix_operator_roles_name", "name", unique=True),)

    name: Mapped[str] = mapped_column(String(MAX_OPERATOR_ROLE_NAME))
    """It never changes: `Account.operator_role` has it."""
    description: Mapped[str] = mapped_column(default="")
    permissions: Mapped[list] = mapped_column(JSON, default=list)
    """Of `GRANTABLE_OPERATOR_PERMISSIONS`."""
