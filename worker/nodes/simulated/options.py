"""What a simulated node is made of, from its address: `simulated://?cores=64&memory_gb=512&boot_seconds=2`."""

from dataclasses import dataclass, fields
from urllib.parse import parse_qsl, urlsplit

from worker.nodes.base import Refused


@dataclass(frozen=True)
class Options:
    cores: int = 64
    memory_gb: int = 512
    storage_gb: int = 10_000
    """Shared by all pools, as if they lay on one file system."""
    boot_seconds: float = 0.0
    """How long after a start the guest agent answers."""
    tpm: int = 1
    """Whether it can give machines a TPM: 1 or 0."""
    secure_boot: int = 1
    """Whether it has a firmware with secure boot for them: 1 or 0."""
    deadline: float = 2.0
    """How long a call waits for a silent node."""
    tickets: int = 0
    """1: the node belongs to a cluster that issues a ticket for each opening of a screen; 0: there is no cluster."""


def parse_options(uri: str) -> Options:
    """A name that is not known is a typing mistake, so it is refused."""
    known = {option.name: type(option.default) for option in fields(Options)}
    values = {}
    for name, text in parse_qsl(urlsplit(uri).query, keep_blank_values=True):
        try:
            values[name] = known[name](text)
        except (KeyError, ValueError):
            detail = f"{name}={text} in {uri}; known are the numbers {', '.join(known)}"
            raise Refused("The address of this simulated hypervisor is not valid.", detail) from None
    return Options(**values)
