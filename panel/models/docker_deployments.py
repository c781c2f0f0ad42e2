"""Container apps that customers run in their guests, and the engine that runs them."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import EncryptedText, Model, TimestampMixin
from panel.models.instances import Instance

CUSTOM_APP_SLUG = "custom"
"""The slug of what is deployed from a compose file of the customer's own."""


class DockerEngine(Model):
    """What is known of the container engine in a guest. There is a row once somebody asked for its installation."""

    __tablename__ = "docker_engines"

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    installed_at: Mapped[datetime | None]
    """Empty until it is there."""
    task_id: Mapped[str | None] = mapped_column(String(36))
    """The latest installation."""
    error: Mapped[str | None] = mapped_column(Text)
    """Why that failed."""
    checked_at: Mapped[datetime | None]
    """When it was last seen there; empty when it has to be looked for anew."""
    unsupported: Mapped[str | None] = mapped_column(Text)
    """Why it cannot be installed in this guest at all."""
    support_checked_at: Mapped[datetime | None]
    """When the guest was last asked for that."""
    leftover: Mapped[dict] = mapped_column(JSON, default=dict)
    """Projects that were removed here while nobody could remove them in the guest, and how often that was tried.
    Replaced as a whole."""
    has_leftover: Mapped[bool] = mapped_column(default=False)


class DockerDeployment(TimestampMixin, Model):
    """An app in a guest: a compose project there."""

    __tablename__ = "docker_deployments"
    __table_args__ = (
        Index("ix_docker_deployments_instance_id_id", "instance_id", "id"),
        Index("ix_docker_deployments_status_checked_at", "status", "checked_at"),
    )

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"))
    app_slug: Mapped[str] = mapped_column(String(64))
    """Of the catalog's app, or `custom`."""
    app_name: Mapped[str]
    project_name: Mapped[str] = mapped_column(String(80), unique=True)
    """What it is called in the guest, for ever."""
    status: Mapped[str] = mapped_column(String(16), default="pending")
    """`pending`, `deploying`, `running`, `stopped`, `error` (a container does not do well) or `failed` (it could not
    be deployed)."""
    error_message: Mapped[str | None] = mapped_column(Text)
    deployed_at: Mapped[datetime | None]
    compose_url: Mapped[str | None] = mapped_column(Text)
    port_mappings: Mapped[list] = mapped_column(JSON, default=list)
    """`{container_port, host_port, protocol}`, as they were asked for."""
    ports: Mapped[list] = mapped_column(JSON, default=list)
    """The same of all ports at which the app can be reached; known once its compose file is."""
    environment: Mapped[str | None] = mapped_column(EncryptedText, deferred=True)
    """JSON: what its compose file's variables stand for."""
    compose: Mapped[str | None] = mapped_column(EncryptedText, deferred=True)
    """The compose file of the deploy under way, for a worker that takes it over."""
    logs: Mapped[str | None] = mapped_column(EncryptedText, deferred=True)
    """What its containers wrote last, as it was at `logs_at`."""
    logs_at: Mapped[datetime | None]
    logs_error: Mapped[str | None] = mapped_column(Text)
    """Why they could not be read the last time."""
    checked_at: Mapped[datetime | None]
    """When somebody last looked at it in the guest; empty when that has to be done anew."""
    task_id: Mapped[str | None] = mapped_column(String(36))
    """The latest work on it: what finds another task here touches nothing."""

    instance: Mapped[Instance] = relationship()

    @property
    def details(self):
        return {"compose_url": self.compose_url} if self.compose_url else {}
