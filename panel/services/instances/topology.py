"""The CPU topology that the guest sees: sockets, cores and threads. Some systems and licenses count them. A change is
effective from the next start."""

from collections.abc import Mapping

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Instance, Task
from panel.services import state_machine
from panel.services.instances import hardware_options

TOPOLOGY_PARTS = ("sockets", "cores", "threads")


def get_effective(instance: Instance) -> tuple[int, ...] | None:
    """Return the topology of its next start as three numbers, or None: each core is a socket. A topology that does not
    match the current number of cores is ignored."""
    topology = instance.topology
    return (
        tuple(topology[part] for part in TOPOLOGY_PARTS)
        if topology and count_cores(topology) == instance.cpu_cores
        else None
    )


def count_cores(topology: Mapping[str, int]) -> int:
    return topology["sockets"] * topology["cores"] * topology["threads"]


def change_error(instance: Instance) -> str | None:
    """Return the reason why it cannot be changed now, or None."""
    return (
        state_machine.TASK_RUNNING
        if instance.state == "migrating" or (instance.deployed and instance.rebuilding)
        else None
    )


def modify(instance: Instance, topology: Mapping[str, int], *, actor: str) -> Task | None:
    """Set the topology, whose product must be the instance's cores. Return the task, or None when nothing changes or
    before the deploy."""
    state_machine.ensure_no_error(change_error(instance))
    if count_cores(topology) != instance.cpu_cores:
        sentence = message("The product of sockets, cores and threads must be {cores}.", cores=instance.cpu_cores)
        raise Invalid(sentence, reason="topology_mismatch", **dict.fromkeys(TOPOLOGY_PARTS, sentence))
    if topology == instance.topology:
        return None
    instance.topology = dict(topology)
    instance.topology_pending = instance.power == "on"
    session.flush()
    return hardware_options.configure(instance, actor=actor)
