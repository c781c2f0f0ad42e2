"""The check of guests that have not reported since their first boot. May run twice."""

from contextlib import suppress

from panel.core.db import session
from panel.core.messages import message
from panel.services.microvms import boots, read
from worker.engine.registry import periodic, task_handler
from worker.guest.sandbox_health import GuestNotReady, wait_for_daemon
from worker.nodes.base import AgentUnavailable, NodeError
from worker.tasks.microvms import build_disk, get_microvm

CHECK_INTERVAL_SECONDS = 10
DAEMON_ANSWER_SECONDS = 30
"""Seconds that the daemon has to answer on the channel."""


def on_check_failed(row, error):
    for microvm in read.lock(row.resource_id):
        boots.postpone(microvm)


@task_handler("microvm_boot_check", on_failure=on_check_failed)
def check(work):
    """Ask the guest. When neither its agent nor its daemon answers, the micro VM fails and its machine is deleted."""
    microvm = get_microvm(work)
    if boots.is_answer_missing(microvm):
        record = boots.record_answer if has_answered(work, microvm.id) else boots.record_silence
        for locked in read.lock(microvm.id):
            record(locked)
        session.commit()
        microvm = get_microvm(work)
    if microvm.state == "failed":
        disk = build_disk(microvm)
        work.undo("delete_disk", disk.pool, disk.name)
        work.undo("delete", microvm.id)
        raise NodeError(boots.NO_ANSWER_MESSAGE)


def has_answered(work, microvm_id):
    """Return whether the guest answers. The channel is only opened if its agent is silent: that ends the router's."""
    work.step(message("Waiting for the guest"), 20)
    with suppress(AgentUnavailable):
        work.node.agent_ping(microvm_id)
        return True
    try:
        wait_for_daemon(work.node.open_channel(microvm_id), work.check_interruptible, DAEMON_ANSWER_SECONDS)
    except GuestNotReady:
        return False
    return True


@periodic(seconds=CHECK_INTERVAL_SECONDS)
def request_checks():
    """Request the checks of guests that have not reported in time."""
    boots.request_checks()
    session.commit()
