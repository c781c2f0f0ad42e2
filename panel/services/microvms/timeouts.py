"""When the time-out of a micro VM begins, and when it has passed.

A start requests the time-out anew, but it counts from when the guest can be used: from its first report to the router,
or, without a router, from when the machine runs. Until then it is pending, and a pending time-out ends nothing.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_, select

from panel.core import clock
from panel.core.db import session, with_lock
from panel.models import Microvm

GUEST_START_LIMIT = timedelta(seconds=60)
"""How long after the start of the machine the time-out stays pending when the guest reports nothing."""

EXPIRABLE_STATES = ("running", "stopped", "failed")
"""States in which a time-out ends a micro VM: in the others it is being started, paused, stopped or destroyed."""


def compute_expiry(seconds: int | None) -> datetime | None:
    return clock.now() + timedelta(seconds=seconds) if seconds else None


def request(microvm: Microvm) -> None:
    """Set the expiry of a micro VM that is to be started."""
    microvm.expires_at = compute_expiry(microvm.timeout_seconds)
    microvm.is_timeout_pending = microvm.expires_at is not None


def begin(microvm: Microvm, *, is_pending: bool = False) -> None:
    """Let a pending time-out count from now, if that is later. `is_pending`: the guest is not ready yet."""
    expires_at = compute_expiry(microvm.timeout_seconds)
    if microvm.is_timeout_pending and expires_at and microvm.expires_at:
        microvm.expires_at = max(microvm.expires_at, expires_at)
    microvm.is_timeout_pending = microvm.is_timeout_pending and is_pending


def on_guest_reports(microvm_ids: Collection[str]) -> None:
    """Let the pending time-outs of running micro VMs count from now, because their guests are ready. Their first boot
    has succeeded."""
    is_pending = or_(Microvm.is_timeout_pending, Microvm.boot_ends_at.is_not(None))
    query = select(Microvm).where(Microvm.id.in_(microvm_ids), is_pending, Microvm.state == "running")
    for microvm in session.scalars(with_lock(query.order_by(Microvm.id), of=Microvm)):
        begin(microvm)
        microvm.boot_ends_at = None


def list_due_conditions() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of micro VMs that their time-out ends now."""
    has_begun = or_(~Microvm.is_timeout_pending, Microvm.state_changed_at <= clock.now() - GUEST_START_LIMIT)
    return Microvm.expires_at <= clock.now(), has_begun, Microvm.ended_at.is_(None), Microvm.state.in_(EXPIRABLE_STATES)


def has_expired(microvm: Microvm) -> bool:
    """Return whether the time-out has passed, so that nobody may use the micro VM any more."""
    if microvm.state == "starting" or microvm.expires_at is None or microvm.expires_at > clock.now():
        return False
    return not microvm.is_timeout_pending or microvm.state_changed_at <= clock.now() - GUEST_START_LIMIT
