"""Whether Docker is installed in a guest. Whether it runs, is another question."""

from worker.nodes.base import Node

SCRIPT = """\
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
command -v docker >/dev/null
"""


def installed(node: Node, machine_id: str) -> bool:
    """Raises `AgentSilent` when the guest does not answer."""
    return node.agent_run(machine_id, ["sh", "-c", SCRIPT]).exit_code == 0
