"""Checks whether an instance's node and guest agent answer, before a call whose answer depends on it.

No request calls a node: a worker looks, and writes what it saw where it is always written (`Hypervisor.seen_at`,
`Instance.agent_checked_at`). Both APIs and the pages wait for that here, then the services refuse by what the rows say.
"""

from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Unavailable
from panel.models import GuestInfo, Hypervisor, Instance
from panel.services import instances

REACHABILITY_TIMEOUT_SECONDS = 10
"""How long a request waits for a worker's look. What did not answer by then counts as silent."""

NOT_REACHED = "No worker was free to look at the node, or it answers too slowly. Try again in a minute."

GUEST_REPORT_TIMEOUT_SECONDS = 3
"""How long a request waits for the first report of a guest. Most answer within a tenth of a second."""


def check_guest(instance, *, by_operator=False):
    """Waits until a worker has looked for the node and the guest agent. Raises `hypervisor_unreachable` (503) or
    `agent_unavailable` (409). What is refused for another reason is left to the caller's service. Returns the time at
    which the check began."""
    asked = clock.now()
    if instances.guest_access_error(instance, by_operator=by_operator) in (None, "agent_unavailable"):
        wait_for_poll(instance.hypervisor, asked, instance)
    return asked


def check_node(hypervisor):
    """The same for calls that need the node only."""
    if hypervisor.status == "up":
        wait_for_poll(hypervisor, clock.now())


def check_source(migration):
    """The same for a migration that is tried again or rolled back. Its instance may have been destroyed."""
    if migration.instance:
        check_node(migration.instance.hypervisor)


def wait_for_report(instance):
    """Has a guest asked for its report that made none since it was turned on, and waits a moment for it."""
    found = instances.find_guest_report(instance)
    made = found is not None and instance.power_at is not None and found.at >= instance.power_at
    if made or instances.guest_access_error(instance, by_operator=True) not in (None, "agent_unavailable"):
        return
    asked, instance_id = clock.now(), instance.id
    facts = select(GuestInfo.at, Instance.agent_checked_at).select_from(Instance)
    facts = facts.outerjoin(GuestInfo, GuestInfo.instance_id == Instance.id).where(Instance.id == instance_id)

    def is_asked():
        return any(is_since(moment, asked) for moment in session.execute(facts).first() or ())

    session.commit()
    jobs.enqueue_call("worker.sync.guest_agents.poll_report", instance.hypervisor_id, instance_id)
    jobs.wait_until(is_asked, GUEST_REPORT_TIMEOUT_SECONDS)
    if found:
        session.refresh(found)


def wait_for_poll(hypervisor, requested_at, instance=None):
    """Waits for a look at the node and, with an instance, at its guest agent."""
    agent_of = instance and instance.id
    session.commit()  # nothing is locked while somebody looks
    jobs.enqueue_call("worker.sync.reachability.poll", hypervisor.id, agent_of)
    jobs.wait_until(lambda: is_polled(hypervisor.id, agent_of, requested_at), REACHABILITY_TIMEOUT_SECONDS)
    session.refresh(hypervisor)
    if hypervisor.status != "up":
        raise Unavailable(instances.REASONS["hypervisor_unreachable"], reason="hypervisor_unreachable")
    if not is_since(hypervisor.seen_at, requested_at):
        raise Unavailable(NOT_REACHED, reason="hypervisor_unreachable")
    if instance:
        session.refresh(instance)
        if instance.agent_down or not is_since(instance.agent_checked_at, requested_at):
            raise Conflict(instances.REASONS["agent_unavailable"], reason="agent_unavailable")


def is_polled(hypervisor_id, instance_id, requested_at):
    node = session.execute(select(Hypervisor.status, Hypervisor.seen_at).where(Hypervisor.id == hypervisor_id)).first()
    if node is None or node.status != "up" or not is_since(node.seen_at, requested_at):
        return node is None or node.status != "up"
    return instance_id is None or is_since(
        session.scalar(select(Instance.agent_checked_at).where(Instance.id == instance_id)), requested_at
    )


def is_since(moment, requested_at):
    return moment is not None and moment >= requested_at
