"""Alert rules of customers, the state of each rule and resource, and what happened."""

from datetime import datetime

from sqlalchemy import Column, ColumnElement, ForeignKey, Index, String, Table, case, exists, literal_column
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.notification_channels import NotificationChannel

alert_rule_channels = Table(
    "alert_rule_channels",
    Model.metadata,
    Column("rule_id", ForeignKey("alert_rules.id", ondelete="cascade"), primary_key=True),
    Column("channel_id", ForeignKey("notification_channels.id", ondelete="cascade"), primary_key=True, index=True),
)


class AlertState(Model):
    """What a rule found for one resource. Without a row the resource has values within the limit."""

    __tablename__ = "alert_states"
    is_audit_part = True
    __table_args__ = (Index("ix_alert_states_resource_id", "resource_id"),)

    rule_id: Mapped[str] = mapped_column(ForeignKey("alert_rules.id", ondelete="cascade"), primary_key=True)
    resource_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    status: Mapped[str] = mapped_column(String(16), default="ok")
    """`ok` or `firing`."""
    changing_since: Mapped[datetime | None]
    """Since when the values call for the other status; it changes after the rule's duration."""
    no_data_since: Mapped[datetime | None]
    fired_at: Mapped[datetime | None]
    notified_at: Mapped[datetime | None]
    """When the last notification was made: of the beginning, or a reminder."""
    acknowledged_at: Mapped[datetime | None]
    value: Mapped[float | None]
    """The value at the last change of the status."""


IS_FIRING = AlertState.status == "firing"


def is_any_state(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition for rules with such a state. It is used within the table's definition."""
    return (
        exists().where(AlertState.rule_id == literal_column("alert_rules.id"), *conditions).correlate_except(AlertState)
    )


class AlertRule(TimestampMixin, Model):
    """A limit for one metric of one resource, or of all resources of the type."""

    __tablename__ = "alert_rules"
    live_permissions = ("monitoring.view", "admin:instances:read")
    __table_args__ = (
        Index("ix_alert_rules_account_id_name", "account_id", "name", "id"),
        Index("ix_alert_rules_resource_id", "resource_id"),
    )

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    resource_type: Mapped[str] = mapped_column(String(32))
    resource_id: Mapped[str | None] = mapped_column(ForeignKey("instances.id", ondelete="cascade"))
    """Empty: all resources of the type."""
    metric: Mapped[str] = mapped_column(String(64))
    operator: Mapped[str] = mapped_column(String(8))
    threshold: Mapped[float]
    duration: Mapped[int] = mapped_column(default=0)
    """Seconds for which the values must call for a change before the status changes."""
    reminder_interval: Mapped[int] = mapped_column(default=0)
    """Seconds between two notifications while the alert fires; 0: no reminders."""
    enabled: Mapped[bool] = mapped_column(default=True)

    status: Mapped[str] = column_property(case((is_any_state(IS_FIRING), "firing"), else_="ok"))
    no_data: Mapped[bool] = column_property(is_any_state(AlertState.no_data_since.is_not(None)))
    acknowledged: Mapped[bool] = column_property(
        ~is_any_state(IS_FIRING, AlertState.acknowledged_at.is_(None)) & is_any_state(IS_FIRING)
    )

    channels: Mapped[list[NotificationChannel]] = relationship(
        secondary=alert_rule_channels, order_by=NotificationChannel.name, passive_deletes=True
    )


class AlertEvent(TimestampMixin, Model):
    """One change of an alert: it began, ended, was reminded of or acknowledged."""

    __tablename__ = "alert_events"
    is_audit_part = True
    __table_args__ = (
        Index("ix_alert_events_rule_id_id", "rule_id", "id"),
        Index("ix_alert_events_created_at", "created_at"),
    )

    rule_id: Mapped[str] = mapped_column(ForeignKey("alert_rules.id", ondelete="cascade"))
    resource_id: Mapped[str]
    resource_name: Mapped[str]
    kind: Mapped[str] = mapped_column(String(16))
    """`firing`, `resolved`, `reminder` or `acknowledged`."""
    value: Mapped[float | None]
    actor: Mapped[str | None]
    """Who acknowledged it."""

    rule: Mapped[AlertRule] = relationship()
