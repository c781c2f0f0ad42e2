"""Container apps that customers run in their guests, and the container engine there."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin
from panel.models.instances import Instance

CUSTOM_APP_SLUG = "custom"
"""The slug of deployments from a customer's own compose file."""


class DockerEngine(Model):
    """State of the container engine in a guest. The row exists once its installation was requested."""

    __tablename__ = "docker_engines"
    is_audit_part = True

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    installed_at: Mapped[datetime | None]
    """Empty until it is installed."""
    task_id: Mapped[str | None] = mapped_column(String(36))
    """The task of the latest installation."""
    error: Mapped[str | None] = mapped_column(MessageText)
    """Why that failed."""
    checked_at: Mapped[datetime | None]
    """When it was last found in the guest; empty to have it checked again."""
    unsupported: Mapped[str | None] = mapped_column(MessageText)
    """Why it cannot be installed in this guest at all."""
    support_checked_at: Mapped[datetime | None]
    """When that was last checked."""
    leftover: Mapped[dict] = mapped_column(JSON, default=dict)
    """Projects that were deleted here while the guest could not be reached, and the number of attempts to remove them
    there. Replaced as a whole.
    """
    has_leftover: Mapped[bool] = mapped_column(default=False)


class DockerDeployment(TimestampMixin, Model):
    """An app in a guest: a compose project there."""

    __tablename__ = "docker_deployments"
    is_audit_part = True
    __table_args__ = (
        Index("ix_docker_deployments_instance_id_id", "instance_id", "id"),
        Index("ix_docker_deployments_status_checked_at", "status", "checked_at"),
    )

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"))
    app_slug: Mapped[str] = mapped_column(String(64))
    """The app of the catalog, or `custom`."""
    app_name: Mapped[str]
    project_name: Mapped[str] = mapped_column(String(80), unique=True)
    """The project's name in the guest. It never changes."""
    status: Mapped[str] = mapped_column(String(16), default="pending")
    """`pending`, `deploying`, `running`, `stopped`, `error` (a container is unhealthy) or `failed` (not deployed)."""
    error_message: Mapped[str | None] = mapped_column(MessageText)
    deployed_at: Mapped[datetime | None]
    compose_url: Mapped[str | None] = mapped_column(Text)
    port_mappings: Mapped[list] = mapped_column(JSON, default=list)
    """The requested ports: `{container_port, host_port, protocol}`."""
    ports: Mapped[list] = mapped_column(JSON, default=list)
    """All ports of the app in the same form, set from its compose file."""
    environment: Mapped[str | None] = mapped_column(EncryptedText, deferred=True)
    """JSON: values of the variables in the compose file."""
    compose: Mapped[str | None] = mapped_column(EncryptedText, deferred=True)
    """The compose file of the current deploy, for a worker that continues it."""
    logs: Mapped[str | None] = mapped_column(EncryptedText, deferred=True)
    """The latest output of its containers, as of `logs_at`."""
    logs_at: Mapped[datetime | None]
    logs_error: Mapped[str | None] = mapped_column(MessageText)
    """Why the logs could not be read the last time."""
    checked_at: Mapped[datetime | None]
    """When it was last checked in the guest; empty to have it checked again."""
    task_id: Mapped[str | None] = mapped_column(String(36))
    """The latest task. Other tasks change nothing here."""

    instance: Mapped[Instance] = relationship()

    @property
    def details(self) -> dict[str, str]:
        return {"compose_url": self.compose_url} if self.compose_url else {}
