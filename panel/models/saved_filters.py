"""Filters of lists that people saved under a name."""

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class SavedFilter(TimestampMixin, Model):
    __tablename__ = "saved_filters"
    __table_args__ = (Index("uq_saved_filters_account_id_page_name", "account_id", "page", "name", unique=True),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    """The person, who is never the owner of a team on behalf of a member."""
    page: Mapped[str] = mapped_column(String(64))
    """The endpoint of the list."""
    name: Mapped[str] = mapped_column(String(64))
    query: Mapped[str] = mapped_column(String(1024))
    """The query string of the list's address."""
