"""The ports of the machine at which apps are reached."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

import yaml
from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import DockerDeployment, Instance
from panel.services.docker_apps.ports import find_node, parse_compose_file

SHORT_SYNTAX_PATTERN = re.compile(
    r"(?:(?P<host>[0-9.]+|\[[0-9a-f:]+\]):)?(?P<outer>\d{1,5}):(?P<inner>\d{1,5})(?:/(?P<protocol>tcp|udp))?"
)
MAX_PORT_ENTRIES = 128
"""Entries of a compose file that are read."""


def list_published_ports(compose: str) -> list[dict[str, Any]]:
    """Return `{container_port, host_port, protocol}` for each single port that a compose file publishes, in its order,
    without duplicates. Ports on the guest's loopback, ranges, and entries without a host port are left out."""
    services = find_node(parse_compose_file(compose), "services")
    pairs = services.value if isinstance(services, yaml.MappingNode) else ()
    nodes = (find_node(service, "ports") for _, service in pairs)
    entries = (entry for ports in nodes if isinstance(ports, yaml.SequenceNode) for entry in ports.value)
    parsed = [parse_entry(entry) for entry in islice(entries, MAX_PORT_ENTRIES)]
    return [port for number, port in enumerate(parsed) if port and port not in parsed[:number]]


def parse_entry(entry: yaml.Node) -> dict[str, Any] | None:
    nodes = {key: find_node(entry, key) for key in ("target", "published", "protocol", "host_ip")}
    if isinstance(entry, yaml.MappingNode):
        inner, outer, protocol, host = (str(node.value) if node else "" for node in nodes.values())
    elif match := SHORT_SYNTAX_PATTERN.fullmatch(str(entry.value)):
        inner, outer, protocol, host = match["inner"], match["outer"], match["protocol"], match["host"] or ""
    else:
        return None
    protocol = protocol or "tcp"
    if not (inner.isdecimal() and outer.isdecimal()) or host.startswith("127.") or protocol not in ("tcp", "udp"):
        return None
    return {"container_port": int(inner), "host_port": int(outer), "protocol": protocol}


def list_taken_ports(instance: Instance, exclude_id: str | None = None) -> dict[tuple[int, str], str]:
    """Return the ports of the machine that its other apps use, with the names of those apps."""
    others = select(DockerDeployment.app_name, DockerDeployment.ports).where(
        DockerDeployment.instance_id == instance.id,
        DockerDeployment.status != "failed",
        DockerDeployment.id != (exclude_id or ""),
    )
    return {(port["host_port"], port["protocol"]): name for name, ports in session.execute(others) for port in ports}


def ensure_ports_free(instance: Instance, ports: Iterable[dict[str, Any]], exclude_id: str | None = None) -> None:
    taken_ports = list_taken_ports(instance, exclude_id)
    for port in ports:
        if name := taken_ports.get((port["host_port"], port["protocol"])):
            sentence = message(
                "Port {port} of the instance is used by {name}. Choose another one.",
                port=port["host_port"],
                name=name,
            )
            raise Invalid(sentence, reason="port_taken", port_mappings=sentence)
