"""Customers' sample things."""

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class SampleThing(TimestampMixin, Model):
    __tablename__ = "sample_things"
    __table_args__ = (Index("ix_sample_things_account_id_name", "account_id", "name", "id"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    description: Mapped[str] = mapped_column(default="")
    # if task
    is_applied: Mapped[bool] = mapped_column(default=False)
    # end if
