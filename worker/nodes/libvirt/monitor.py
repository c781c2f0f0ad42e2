"""Commands to QEMU's monitor, for what libvirt has no call."""

import json
from typing import Any

import libvirt
import libvirt_qemu

from panel.core.messages import message
from worker.nodes.base import Refused


def list_disk_nodes(domain: libvirt.virDomain) -> list[str]:
    """Return QEMU's node names of the machine's disks."""
    inserted = [medium.get("inserted") for medium in run_monitor_command(domain, "query-block")]
    return [medium["node-name"] for medium in inserted if medium and not medium["ro"] and medium["drv"] == "qcow2"]


def run_monitor_command(domain: libvirt.virDomain, command: str, **arguments: Any) -> Any:
    reply = libvirt_qemu.qemuMonitorCommand(domain, json.dumps({"execute": command, "arguments": arguments}), 0)
    answer = json.loads(reply)
    if "error" in answer:
        raise Refused(message("The hypervisor refused a command."), f"{command}: {answer['error']}")
    return answer["return"]
