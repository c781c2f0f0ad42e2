"""The audit log: who did what to which object, from where. Rows are only added: the database refuses other changes."""

from datetime import datetime

from sqlalchemy import JSON, ColumnElement, Index, String, or_, text
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import Model, append_only, generate_id
from panel.schemas.audit import PLATFORM_PERSON_KINDS

IMPERSONATED_SQL = text("impersonator is not null")


class AuditEntry(Model):
    """One action of somebody. Ids are plain text, because entries outlive the objects."""

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_account_id_id", "account_id", "id"),
        Index("ix_audit_account_id_person_id_id", "account_id", "person_id", "id"),
        Index("ix_audit_person_id_id", "person_id", "id"),
        Index("ix_audit_person_id", "person", "id"),
        Index(
            "ix_audit_impersonator_id",
            "impersonator",
            "id",
            sqlite_where=IMPERSONATED_SQL,
            postgresql_where=IMPERSONATED_SQL,
        ),
        Index("ix_audit_object_id_id", "object_id", "id"),
        Index("ix_audit_action_id", "action", "id"),
        Index("ix_audit_created_at", "created_at"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    created_at: Mapped[datetime] = mapped_column(default=clock.now)
    account_id: Mapped[str | None] = mapped_column(String(36))
    """The account in whose log it appears: the resource's owner; empty for the platform's own."""
    person_id: Mapped[str | None] = mapped_column(String(36))
    person: Mapped[str]
    """Who acted, as named at that time: an email address, or the name of a platform token."""
    person_kind: Mapped[str] = mapped_column(String(16))
    """One of panel.schemas.audit.PERSON_KINDS."""
    impersonator: Mapped[str | None]
    """The operator who acted as the person."""
    token_id: Mapped[str | None] = mapped_column(String(36))
    token_name: Mapped[str | None]
    ip: Mapped[str] = mapped_column(String(45))
    action: Mapped[str] = mapped_column(String(80))
    """The operation of the API (`user.instance.create`) or the page's action (`instances.create`)."""
    object_type: Mapped[str | None] = mapped_column(String(48))
    object_id: Mapped[str | None] = mapped_column(String(64))
    object_name: Mapped[str | None]
    changes: Mapped[dict] = mapped_column(JSON, default=dict)
    """Changes of the object (panel.services.audit.change_tracking), without values, which may be secret."""

    also: Mapped[list] = mapped_column(JSON, default=list)
    """Labels of further objects of the action."""

    @hybrid_property
    def by_platform(self) -> bool:
        """Whether an operator or platform token acted: customers do not see their IP address."""
        return self.person_kind in PLATFORM_PERSON_KINDS or self.impersonator is not None

    @by_platform.inplace.expression
    @classmethod
    def _by_platform(cls) -> ColumnElement[bool]:
        return or_(cls.person_kind.in_(PLATFORM_PERSON_KINDS), cls.impersonator.is_not(None))


append_only(AuditEntry.__table__)
