"""Minting sessions. What has to happen on the node or in the guest is done by a worker meanwhile."""

import secrets
from datetime import timedelta

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from panel.core import clock, jobs
from panel.core.db import new_id, on_commit, session
from panel.core.errors import Conflict, Invalid
from panel.models import ConsoleSession
from panel.services.instances import WORDS
from panel.services.tokens import hashed

SCREEN_LASTS = 60
SHELL_LASTS = 900
"""Seconds until an unused session is void (specification 8)."""

PASSWORD_LENGTH = 8
"""All that VNC looks at."""

SHELL_PORT = 22
SHELL_USER = "root"

NO_SCREEN = {
    "suspended": WORDS["suspended"],
    "not_running": WORDS["not_running"],
    "vnc_disabled": "The screen of this instance is turned off. Turn VNC on in its settings.",
}


def screen(instance, who, *, by_operator=False, expires_in=SCREEN_LASTS):
    """Lets whoever shows the secret first see the instance's screen. Returns the row and the secret."""
    if reason := why_no_screen(instance, by_operator):
        raise Conflict(NO_SCREEN[reason], reason=reason)
    row, secret = mint("screen", instance, who, expires_in)
    row.password = secrets.token_urlsafe(6)[:PASSWORD_LENGTH]
    session.flush()
    on_commit(lambda: ring(row.id))
    return row, secret


def ring(session_id):
    """Asks the workers to prepare the machine's side of a screen."""
    jobs.call("worker.tasks.consoles.open_screen", session_id)


def why_no_screen(instance, by_operator=False):
    """The reason word, or None. A screen can be watched while the machine is being installed."""
    if instance.suspended_reason and not by_operator:
        return "suspended"
    if instance.power != "on":
        return "not_running"
    return None if instance.enable_vnc else "vnc_disabled"


def shell(instance, who):
    """The same for a shell. Also returns the task that puts the session's key into the guest, without which the session
    is of no use."""
    if refused := shell_refusal(instance):
        raise refused
    row, secret = mint("shell", instance, who, SHELL_LASTS)
    row.host, row.port, row.user = instance.ipv4 or instance.ipv6, SHELL_PORT, SHELL_USER
    row.private_key, row.public_key = key_pair(row.id)
    session.flush()
    task = jobs.enqueue(
        "instance_ssh_session",
        "instance",
        instance,
        lock="light",
        actor=who["person"],
        hypervisor_id=instance.hypervisor_id,
        arguments={"console_session_id": row.id},
    )
    return row, secret, task


def shell_refusal(instance):
    """What is raised instead of a shell (specification 7.2), or None."""
    if instance.suspended_reason:
        return Conflict(WORDS["suspended"], reason="suspended")
    if instance.hypervisor_id is None:
        return Conflict("The instance is on no hypervisor.", reason="no_hypervisor")
    if instance.state != "running":
        return Conflict("The instance is not running. Start it first.", reason="instance_not_running")
    if instance.image and instance.image.type != "linux":
        return Invalid("A shell can be opened in Linux only. Use the screen.", reason="unsupported_os")
    if not (instance.ipv4 or instance.ipv6):
        return Invalid("The instance has no address that a shell could be opened at.")
    return None


def mint(kind, instance, who, expires_in):
    secret = secrets.token_urlsafe(32)
    row = ConsoleSession(
        id=new_id(),
        kind=kind,
        secret_hash=hashed(secret),
        instance=instance,
        account_id=instance.account_id,
        who=who,
        expires_at=clock.now() + timedelta(seconds=expires_in),
    )
    session.add(row)
    return row, secret


def key_pair(session_id):
    """A key for this session alone: private as OpenSSH writes it, and the public line."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()} panel-session {session_id}"
