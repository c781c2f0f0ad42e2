"""Connectors: host names that lead to ports of micro VMs, called public addresses on pages."""

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, query_expression, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.microvms import Microvm


class MicrovmConnector(TimestampMixin, Model):
    """A label below the sandbox domain that leads to a port of a micro VM. It ends with the micro VM."""

    __tablename__ = "microvm_connectors"
    __table_args__ = (Index("ix_microvm_connectors_account_id_id", "account_id", "id"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    """The owner of the micro VM."""
    microvm_id: Mapped[str] = mapped_column(ForeignKey("microvms.id", ondelete="cascade"), index=True)
    label: Mapped[str] = mapped_column(String(63), unique=True)
    """The first label of the host name, unique in the installation."""
    port: Mapped[int]

    microvm: Mapped[Microvm] = relationship()

    url: Mapped[str | None] = query_expression()
    """The address below the sandbox domain of the installation; None without one."""
