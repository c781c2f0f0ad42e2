"""Detects whether Docker is installed in a guest, and whether it can be. Whether it runs is not checked here."""

from worker.nodes.base import NodeDriver

DETECT_SCRIPT = """\
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
command -v docker >/dev/null
"""

SUPPORT_SCRIPT = """\
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
for program in docker apt-get dnf apk zypper pacman; do ! command -v "$program" >/dev/null || exit 0; done
exit 64
"""
"""The package managers are those of docker_scripts/install.sh."""

UNSUPPORTED_EXIT_CODE = 64


def is_installed(node: NodeDriver, machine_id: str) -> bool:
    """Return whether the guest has Docker. Raises `AgentUnavailable` when the guest does not answer."""
    return node.agent_run(machine_id, ["sh", "-c", DETECT_SCRIPT]).exit_code == 0


def is_supported(node: NodeDriver, machine_id: str) -> bool:
    """Return whether the guest has Docker, or a package manager with which the panel can install it. Raises
    `AgentUnavailable` when the guest does not answer."""
    return node.agent_run(machine_id, ["sh", "-c", SUPPORT_SCRIPT]).exit_code != UNSUPPORTED_EXIT_CODE
