"""Console sessions: VNC screens and SSH shells of instances."""

from datetime import datetime

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin
from panel.models.instances import Instance

OPEN_SESSION_SQL = "redeemed_at is not null and ended_at is null"
"""The condition of the partial indexes for open sessions, which are few."""


class ConsoleSession(TimestampMixin, Model):
    """The permission to open one console once, until `expires_at`; the first request with the secret redeems it.

    After that the row describes the connection and its end.
    """

    __tablename__ = "console_sessions"
    is_audit_part = True
    __table_args__ = (
        Index("ix_console_sessions_instance_id_id", "instance_id", "id"),
        Index(
            "ix_console_sessions_open",
            "id",
            sqlite_where=text(OPEN_SESSION_SQL),
            postgresql_where=text(OPEN_SESSION_SQL),
        ),
        Index("ix_console_sessions_created_at", "created_at"),
    )

    kind: Mapped[str] = mapped_column(String(8))
    """`screen` or `shell`."""
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"))
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The owner of the instance."""
    opened_by: Mapped[dict] = mapped_column(JSON)
    """Who requested it: the actor's values of the audit log, and the `sign_in_id` of a browser.

    The console closes when they may no longer open it.
    """
    expires_at: Mapped[datetime]
    redeemed_at: Mapped[datetime | None]
    opened_at: Mapped[datetime | None]
    """When the connection to the machine was made."""
    seen_at: Mapped[datetime | None]
    """When the console server last reported it open."""
    ended_at: Mapped[datetime | None]
    ended_reason: Mapped[str | None] = mapped_column(String(32))
    ended_message: Mapped[str | None] = mapped_column(MessageText)
    close_reason: Mapped[str | None] = mapped_column(MessageText)
    """Set to close it: the reason, as a sentence."""
    ip: Mapped[str | None] = mapped_column(String(45))
    """The client's address."""
    bytes_in: Mapped[int] = mapped_column(BigInteger, default=0)
    bytes_out: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes from the browser, and to it."""

    host: Mapped[str | None]
    port: Mapped[int | None]
    ssh_jump: Mapped[str | None]
    """The SSH server for the tunnel to the screen, if it is not reached directly."""
    error: Mapped[str | None] = mapped_column(MessageText)
    """Why the machine's side could not be prepared."""
    password: Mapped[str | None] = mapped_column(EncryptedText)
    """The password that a VNC viewer needs."""
    node_password: Mapped[str | None] = mapped_column(EncryptedText)
    """The password of the node's VNC server."""
    user: Mapped[str | None] = mapped_column(String(32))
    private_key: Mapped[str | None] = mapped_column(EncryptedText)
    """The shell's private key, deleted at the end.

    Its public key is in the guest from `key_put_at` to `key_removed_at`.
    """
    public_key: Mapped[str | None] = mapped_column(Text)
    key_put_at: Mapped[datetime | None]
    key_removed_at: Mapped[datetime | None]

    instance: Mapped[Instance] = relationship()

    @property
    def state(self) -> str:
        """`fresh`, `open`, `ended` or `expired`."""
        if self.ended_at:
            return "ended"
        if self.redeemed_at:
            return "open"
        return "fresh" if self.expires_at > clock.now() else "expired"

    @property
    def by_operator(self) -> bool:
        return self.opened_by["person_kind"] in ("operator", "admin_token")
