"""What workers record of micro VMs. All functions take a row that was just locked (`read.lock`) or read again."""

from datetime import datetime, timedelta

from sqlalchemy import delete

from panel.core import clock
from panel.core.db import session
from panel.core.messages import message
from panel.models import Microvm, MicrovmConnector, MicrovmSnapshot, ResourceGrant
from panel.services import usage
from panel.services.microvms import guest_reports, timeouts
from panel.services.microvms.actions import set_state

FIRST_DESTROY_RETRY_SECONDS, MAX_DESTROY_RETRY_SECONDS = 10, 3600
"""Seconds until a failed attempt is repeated: the first pause, which doubles each time, and the longest."""
EXPIRY_RETRY_DELAY = timedelta(minutes=1)
"""How much longer an expired micro VM runs when it could not be paused."""
ENDED_ROW_RETENTION = timedelta(days=30)
"""How long the rows of destroyed micro VMs are stored."""

LOST_MESSAGE = message("The hypervisor does not have the micro VM any more.")
TURNED_OFF_MESSAGE = message("The micro VM turned itself off.")


def record_state(microvm: Microvm, state: str, error: str | None = None) -> None:
    """Record how a task left the micro VM. One that is to be destroyed stays so."""
    if microvm.state == "destroying":
        return
    if state == "paused":
        microvm.expires_at = None
    if state == "running" and microvm.is_timeout_pending:
        timeouts.begin(microvm, is_pending=guest_reports.has_collector())
    else:
        microvm.is_timeout_pending = False
    set_state(microvm, state, error)


def record_create_failure(microvm: Microvm, error: str) -> None:
    """Record that the create failed. Nothing is left on the node, so nothing more is charged."""
    usage.stop_metering(microvm)
    record_state(microvm, "failed", error)


def record_failure(microvm: Microvm, before: str, error: str) -> None:
    """Return to the state before a task that failed. The next poll of the node corrects what is wrong by then."""
    if microvm.state in ("starting", "pausing", "stopping"):
        set_state(microvm, before, error)
        microvm.is_timeout_pending = False
        if before == "paused":
            microvm.expires_at = None


def postpone_expiry(microvm: Microvm, expires_at: datetime | None) -> None:
    """Restore the expiry of a micro VM that could not be paused. A time-out that has passed is tried again later."""
    if microvm.state == "running" and expires_at:
        has_passed = expires_at <= clock.now()
        microvm.expires_at = clock.now() + EXPIRY_RETRY_DELAY if has_passed else expires_at


def record_destroy_failure(microvm: Microvm, error: str) -> None:
    """Schedule the next attempt."""
    delay = min(FIRST_DESTROY_RETRY_SECONDS * 2**microvm.destroy_attempts, MAX_DESTROY_RETRY_SECONDS)
    microvm.destroy_attempts, microvm.error = microvm.destroy_attempts + 1, error
    microvm.next_destroy_at = clock.now() + timedelta(seconds=delay)


def on_destroyed(microvm: Microvm) -> None:
    """End the row. Nothing of the micro VM is left on the node; its secrets are deleted."""
    usage.stop_metering(microvm)
    for column in (MicrovmSnapshot.microvm_id, MicrovmConnector.microvm_id, ResourceGrant.resource_id):
        session.execute(delete(column.class_).where(column == microvm.id))
    guest_reports.delete_all(microvm)
    set_state(microvm, "destroying")
    microvm.ended_at, microvm.next_destroy_at, microvm.expires_at = clock.now(), None, None
    microvm.encrypted_envs, microvm.access_token, microvm.usage = None, "", None
    session.flush()


def purge_expired() -> None:
    """Delete the rows of micro VMs that ended long ago."""
    session.execute(delete(Microvm).where(Microvm.ended_at < clock.now() - ENDED_ROW_RETENTION))
