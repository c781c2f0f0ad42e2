"""Creating console sessions. Workers prepare the node or the guest meanwhile."""

import secrets
from datetime import timedelta
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from panel.core import clock, jobs
from panel.core.db import generate_id, on_commit, session
from panel.core.errors import Conflict, Invalid, Problem
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import ConsoleSession, Instance, Task
from panel.services.state_machine import REASON_MESSAGES, ensure_no_error, make_problem
from panel.services.tokens import hash_secret

task_kind("instance_ssh_session", "Shell")

VNC_SESSION_TTL_SECONDS = 60
SHELL_SESSION_TTL_SECONDS = 900
"""Seconds until an unused session expires (CON-16, SSH-02)."""

VNC_PASSWORD_LENGTH = 8
"""Characters of a password that VNC uses."""

SHELL_PORT = 22
SHELL_USER = "root"


def create_vnc_session(
    instance: Instance, actor: dict[str, Any], *, by_operator: bool = False, expires_in: int = VNC_SESSION_TTL_SECONDS
) -> tuple[ConsoleSession, str]:
    """Create a session for the instance's screen. Return the row and the secret that redeems it."""
    ensure_no_error(vnc_error(instance, by_operator))
    row, secret = create_session("screen", instance, actor, expires_in)
    row.password = secrets.token_urlsafe(6)[:VNC_PASSWORD_LENGTH]
    session.flush()
    on_commit(lambda: enqueue_vnc_preparation(row.id))
    return row, secret


def enqueue_vnc_preparation(session_id: str) -> None:
    """Ask the workers to prepare the connection to the machine's screen."""
    jobs.enqueue_call("worker.tasks.consoles.open_vnc", session_id)


def vnc_error(instance: Instance, by_operator: bool = False) -> str | None:
    """Return the reason why the screen cannot be opened, or None. It is available during an installation."""
    if instance.suspended_reason and not by_operator:
        return "suspended"
    if instance.power != "on":
        return "not_running"
    return None if instance.enable_vnc else "vnc_disabled"


def create_shell_session(instance: Instance, actor: dict[str, Any]) -> tuple[ConsoleSession, str, Task]:
    """Create a session for a shell. Return the row, the secret, and the task that puts the session's key into the
    guest. The session does not work before that task is done."""
    if error := shell_error(instance):
        raise error
    row, secret = create_session("shell", instance, actor, SHELL_SESSION_TTL_SECONDS)
    row.host, row.port, row.user = instance.ipv4 or instance.ipv6, SHELL_PORT, SHELL_USER
    row.private_key, row.public_key = generate_key_pair(row.id)
    session.flush()
    task = jobs.enqueue(
        "instance_ssh_session",
        "instance",
        instance,
        lock="light",
        actor=actor["person"],
        hypervisor_id=instance.hypervisor_id,
        arguments={"console_session_id": row.id},
    )
    return row, secret, task


def shell_error(instance: Instance) -> Problem | None:
    """Return the exception to raise instead of opening a shell (SSH-15 to SSH-18), or None."""
    if instance.suspended_reason:
        return make_problem("suspended")
    if instance.hypervisor_id is None:
        return Conflict(message("The instance is on no hypervisor."), reason="no_hypervisor")
    if instance.state != "running":
        return Conflict(REASON_MESSAGES["not_running"], reason="instance_not_running")
    if instance.image and instance.image.type != "linux":
        return Invalid(message("A shell can be opened only in Linux. Use the console."), reason="unsupported_os")
    if not (instance.ipv4 or instance.ipv6):
        return Invalid(message("The instance has no address that a shell could be opened at."))
    return None


def create_session(kind: str, instance: Instance, actor: dict[str, Any], expires_in: int) -> tuple[ConsoleSession, str]:
    secret = secrets.token_urlsafe(32)
    row = ConsoleSession(
        id=generate_id(),
        kind=kind,
        secret_hash=hash_secret(secret),
        instance=instance,
        account_id=instance.account_id,
        opened_by=actor,
        expires_at=clock.now() + timedelta(seconds=expires_in),
    )
    session.add(row)
    return row, secret


def generate_key_pair(session_id: str) -> tuple[str, str]:
    """Return a key for this session alone: the private key in OpenSSH format and the public line."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()} panel-session {session_id}"
