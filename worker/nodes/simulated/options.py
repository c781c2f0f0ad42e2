"""The properties of a simulated node, from its URI: `simulated://?cores=64&memory_gb=512&boot_seconds=2`."""

from dataclasses import dataclass
from typing import Any, get_type_hints
from urllib.parse import parse_qsl, urlsplit

from panel.core.messages import message
from worker.nodes.base import Refused


@dataclass(frozen=True)
class Options:
    cores: int = 64
    memory_gb: int = 512
    storage_gb: int = 10_000
    """Shared by all pools, as if they were on one file system."""
    boot_seconds: float = 0.0
    """Seconds after a start until the guest agent answers."""
    tpm: int = 1
    """Whether it can provide a TPM: 1 or 0."""
    secure_boot: int = 1
    """Whether it has a firmware with secure boot: 1 or 0."""
    deadline: float = 2.0
    """Seconds that a call waits for an unresponsive node."""
    tickets: int = 0
    """1: the node belongs to a cluster that issues a ticket for each opening of a VNC console; 0: there is no
    cluster."""


def parse_options(uri: str) -> Options:
    """Return the options of the URI. An unknown name is probably a typing error, so it is refused."""
    option_types = get_type_hints(Options)
    values: dict[str, Any] = {}
    for name, text in parse_qsl(urlsplit(uri).query, keep_blank_values=True):
        try:
            values[name] = option_types[name](text)
        except (KeyError, ValueError):
            detail = f"{name}={text} in {uri}; known are the numbers {', '.join(option_types)}"
            raise Refused(message("The address of this simulated hypervisor is not valid."), detail) from None
    return Options(**values)
