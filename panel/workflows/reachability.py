"""Check that an instance's node and guest agent answer, before a call that needs them.

Requests do not call nodes: a worker polls, and records the result in the rows as usual (`Hypervisor.seen_at`,
`Instance.agent_checked_at`). Both APIs and the pages wait for that here; then the services decide by the rows.
"""

from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Unavailable
from panel.core.messages import message
from panel.models import GuestInfo, Hypervisor, Instance
from panel.services import instances
from panel.services.state_machine import make_problem
from panel.workflows import waiting

REACHABILITY_TIMEOUT_SECONDS = 10
"""How long a request waits for the poll. Without a result by then, the node or agent counts as unreachable."""

NOT_REACHED = message("All workers are busy, or the hypervisor answers too slowly. Try again in a minute.")

GUEST_REPORT_TIMEOUT_SECONDS = 3
"""How long a request waits for the first report of a guest agent. Most answer within 0.1 s."""


def check_guest(instance, *, by_operator=False):
    """Wait until a worker has polled the node and the guest agent. Return the time at which the check began. Raise
    `hypervisor_unreachable` (503) or `agent_unavailable` (409); other errors are left to the caller's service."""
    requested_at = clock.now()
    if instances.guest_access_error(instance, by_operator=by_operator) in (None, "agent_unavailable"):
        wait_for_poll(instance.hypervisor, requested_at, instance)
    return requested_at


def check_node(hypervisor):
    """Wait until a worker has polled the node, if it is up. Raise `hypervisor_unreachable` (503)."""
    if hypervisor.status == "up":
        wait_for_poll(hypervisor, clock.now())


def check_source(migration):
    """Check the source node of a migration that is retried or rolled back. Its instance may have been destroyed."""
    if migration.instance:
        check_node(migration.instance.hypervisor)


def wait_for_report(instance):
    """Poll a guest agent that has not reported since power-on, and wait for its report."""
    report = instances.find_guest_report(instance)
    is_current = (
        report is not None and instance.power_reported_at is not None and report.at >= instance.power_reported_at
    )
    if is_current or instances.guest_access_error(instance, by_operator=True) not in (None, "agent_unavailable"):
        return
    requested_at, instance_id = clock.now(), instance.id
    query = select(GuestInfo.at, Instance.agent_checked_at).select_from(Instance)
    query = query.outerjoin(GuestInfo, GuestInfo.instance_id == Instance.id).where(Instance.id == instance_id)

    def is_asked():
        return any(is_since(moment, requested_at) for moment in session.execute(query).first() or ())

    session.commit()
    jobs.enqueue_call("worker.sync.guest_agents.poll_report", instance.hypervisor_id, instance_id)
    waiting.wait_until(is_asked, GUEST_REPORT_TIMEOUT_SECONDS)
    if report:
        session.refresh(report)


def wait_for_poll(hypervisor, requested_at, instance=None):
    """Wait for a poll of the node and, with an instance, of its guest agent. Raise when one does not answer."""
    instance_id = instance and instance.id
    session.commit()  # releases locks while a worker polls
    jobs.enqueue_call("worker.sync.reachability.poll", hypervisor.id, instance_id)
    waiting.wait_until(lambda: is_polled(hypervisor.id, instance_id, requested_at), REACHABILITY_TIMEOUT_SECONDS)
    session.refresh(hypervisor)
    if hypervisor.status != "up":
        raise Unavailable(instances.REASON_MESSAGES["hypervisor_unreachable"], reason="hypervisor_unreachable")
    if not is_since(hypervisor.seen_at, requested_at):
        raise Unavailable(NOT_REACHED, reason="hypervisor_unreachable")
    if instance:
        session.refresh(instance)
        if instance.agent_down or not is_since(instance.agent_checked_at, requested_at):
            raise make_problem("agent_unavailable")


def is_polled(hypervisor_id, instance_id, requested_at):
    node = session.execute(select(Hypervisor.status, Hypervisor.seen_at).where(Hypervisor.id == hypervisor_id)).first()
    if node is None or node.status != "up" or not is_since(node.seen_at, requested_at):
        return node is None or node.status != "up"
    return instance_id is None or is_since(
        session.scalar(select(Instance.agent_checked_at).where(Instance.id == instance_id)), requested_at
    )


def is_since(moment, requested_at):
    return moment is not None and moment >= requested_at
