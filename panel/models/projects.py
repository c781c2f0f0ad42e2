"""Projects, in which customers group their resources."""

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, query_expression

from panel.core.db import Model, TimestampMixin


class Project(TimestampMixin, Model):
    __tablename__ = "projects"
    live_permissions = ("projects.view", None)
    __table_args__ = (Index("ix_projects_account_id_name", "account_id", "name", unique=True),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str] = mapped_column(String(64))
    description: Mapped[str | None]
    color: Mapped[str | None] = mapped_column(String(7))
    """`#RRGGBB`."""
    instances: Mapped[int] = query_expression()
    volumes: Mapped[int] = query_expression()
    """How many the person reaches. Lists load both by `with_counts` of panel.services.projects."""
