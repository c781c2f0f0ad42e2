"""Calls to the QEMU guest agent inside a machine."""

import base64
import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import libvirt
import libvirt_qemu

from panel.core.messages import message
from worker.nodes.base import AgentUnavailable, CommandResult
from worker.nodes.libvirt.machines import get_domain

ANSWER_SECONDS = 5
"""Seconds the agent has for an answer."""

PASSWORD_SECONDS = 15
"""Seconds the guest has to set a password: a slow machine takes a while to hash it."""

NO_ANSWER_CODES = (
    libvirt.VIR_ERR_OPERATION_INVALID,  # the machine just stopped
    libvirt.VIR_ERR_OPERATION_TIMEOUT,  # the agent is still busy with something else
    libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,  # an unmanaged machine without an agent's channel
)

RUN_POLL_INTERVAL_SECONDS = 0.05
"""Seconds until the first poll whether a program has ended; later polls are further apart."""


def ping(connection: libvirt.virConnect, machine_id: str) -> None:
    send_command(get_running_domain(connection, machine_id), "guest-ping")


def list_addresses(connection: libvirt.virConnect, machine_id: str) -> dict[str, list[str]]:
    domain = get_running_domain(connection, machine_id)
    return {
        interface["hardware-address"]: [address["ip-address"] for address in interface.get("ip-addresses", ())]
        for interface in send_command(domain, "guest-network-get-interfaces")
        if interface.get("hardware-address") and interface["name"] != "lo"
    }


def set_password(connection: libvirt.virConnect, machine_id: str, user: str, password: str) -> None:
    """Set the password by the agent's command: libvirt's own call waits without a limit for an agent that hangs."""
    domain = get_running_domain(connection, machine_id)
    arguments = {"username": user, "password": encode(password), "crypted": False}
    send_command(domain, "guest-set-user-password", seconds=PASSWORD_SECONDS, **arguments)


def run(
    connection: libvirt.virConnect, machine_id: str, command: Iterable[str], stdin: str, deadline: float
) -> CommandResult:
    limit = time.monotonic() + deadline
    domain = get_running_domain(connection, machine_id)
    path, *arguments = command
    options: dict[str, Any] = {"path": path, "arg": arguments, "input-data": encode(stdin), "capture-output": True}
    started = send_command(domain, "guest-exec", **options)
    pause = RUN_POLL_INTERVAL_SECONDS
    while not (status := send_command(domain, "guest-exec-status", pid=started["pid"]))["exited"]:
        if time.monotonic() + pause > limit:
            detail = f"{path} in machine {machine_id} took more than {deadline:g} seconds"
            raise AgentUnavailable(message("The program in the guest did not finish in time."), detail)
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)
    return CommandResult(status.get("exitcode", 128 + status.get("signal", 0)), decode_output(status))


def decode_output(status: dict[str, Any]) -> str:
    return "".join(decode(status[stream]) for stream in ("out-data", "err-data") if stream in status)


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def decode(data: str) -> str:
    return base64.b64decode(data).decode(errors="replace")


def send_command(domain: libvirt.virDomain, command: str, seconds: int = ANSWER_SECONDS, **arguments: Any) -> Any:
    request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
    with translate_errors():
        return json.loads(libvirt_qemu.qemuAgentCommand(domain, request, seconds, 0))["return"]


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() in NO_ANSWER_CODES:
            raise AgentUnavailable(message("The guest agent does not answer."), str(error)) from error
        raise


def get_running_domain(connection: libvirt.virConnect, machine_id: str) -> libvirt.virDomain:
    """Return the machine; raise `AgentUnavailable` when it is not running."""
    domain = get_domain(connection, machine_id)
    if domain.state()[0] != libvirt.VIR_DOMAIN_RUNNING:
        raise AgentUnavailable(message("The guest agent does not answer."), f"machine {machine_id} is not running")
    return domain
