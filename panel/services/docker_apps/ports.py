"""The ports that a compose file publishes, and how to replace them.

The file is parsed to a tree of YAML nodes and serialized from it without interpreting scalars, because Compose and
Python read some of them differently (`22:22`, `on`). Aliases stay aliases, so a small file cannot expand to gigabytes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from panel.core.errors import Invalid
from panel.core.messages import message

MAX_COMPOSE_FILE_BYTES = 256 * 1024
"""Maximum size of a compose file."""
MAP_TAG = "tag:yaml.org,2002:map"
SEQUENCE_TAG = "tag:yaml.org,2002:seq"
STRING_TAG = "tag:yaml.org,2002:str"
MERGE_KEY = "<<"
DEFAULT_VALUE_PATTERN = re.compile(r"\$\{\w+:?-([^}]*)\}")


class Reader(yaml.SafeLoader):
    """A loader that does not turn plain scalars into numbers, dates or anything else."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def compose_scalar_node(self, anchor: str | None) -> yaml.ScalarNode:
        plain, tagged = self.peek_event().implicit[0], self.peek_event().tag
        node = super().compose_scalar_node(anchor)
        if plain and not node.value:
            node.value = "null"  # an empty value means null, which is not valid everywhere
        if tagged and node.tag == STRING_TAG and not node.style:
            node.style = '"'
        return node


class Writer(yaml.SafeDumper):
    """A dumper that writes plain scalars as they were."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


@dataclass(frozen=True)
class Port:
    container_port: int
    host_port: int
    protocol: str


def parse_ports(entries: Iterable[str]) -> tuple[Port, ...]:
    """Return the ports of a list of short entries, such as `8080:80` and `53:53/udp`."""
    return tuple(parse_port(entry) for entry in entries)


def parse_port(entry: str) -> Port:
    ports, _, protocol = entry.partition("/")
    host_port, container_port = ports.split(":")
    return Port(int(container_port), int(host_port), protocol or "tcp")


def remap_ports(text: str, port_mappings: list[dict[str, Any]], service: str | None = None) -> str:
    """Return the compose file with these ports. Each mapping (a dict of `container_port`, `host_port`, optionally
    `protocol`) goes to the service that publishes or exposes that container port, else to `service`, else to the first
    one. Services with mappings publish those ports and no others. Without mappings the file stays as it is. Raise
    Invalid, naming `compose_url` for an invalid file, or `port_mappings`."""
    root = parse_compose_file(text)
    services = find_node(root, "services")
    if not isinstance(services, yaml.MappingNode) or not services.value:
        raise Invalid(
            message("This is not a compose file: it has no services."), compose_url=message("The file has no services.")
        )
    for name, node in services.value:
        if not isinstance(node, yaml.MappingNode):
            problem = message("The service {service} is not a mapping.", service=name.value)
            raise Invalid(message("This is not a compose file. {problem}", problem=problem), compose_url=problem)
    mappings = [parse_mapping(mapping) for mapping in port_mappings or ()]
    if not mappings:
        return text
    host_ports = [(port.host_port, port.protocol) for port in mappings]
    if len(set(host_ports)) < len(host_ports):
        raise Invalid(
            message("Two mappings have the same host port."), port_mappings=message("A host port can be used once.")
        )
    ports_by_service: dict[str, list[Port]] = {}
    for port in mappings:
        ports_by_service.setdefault(get_service_name(services, port, service), []).append(port)
    services.value = [
        (name, replace_ports(node, ports_by_service[name.value]) if name.value in ports_by_service else node)
        for name, node in services.value
    ]
    return yaml.serialize(root, Dumper=Writer, allow_unicode=True, width=120)


def parse_compose_file(text: str) -> yaml.MappingNode:
    """Return the root node of the file. Raise Invalid when it is too large or not a YAML mapping."""
    if len(text.encode()) > MAX_COMPOSE_FILE_BYTES:
        problem = message("The file is larger than {maximum} KiB.", maximum=MAX_COMPOSE_FILE_BYTES // 1024)
    else:
        try:
            root = yaml.compose(text, Reader)
            if isinstance(root, yaml.MappingNode):
                return root
            problem = message("The file is not a YAML mapping.")
        except (yaml.YAMLError, ValueError) as error:
            problem = message("The file is not valid YAML: {detail}.", detail=str(error).splitlines()[0])
        except RecursionError:
            problem = message("The file is nested too deeply.")
    raise Invalid(message("This is not a compose file. {problem}", problem=problem), compose_url=problem)


def parse_mapping(mapping: Any) -> Port:
    try:
        port = Port(mapping["container_port"], mapping["host_port"], mapping.get("protocol") or "tcp")
    except (KeyError, TypeError, AttributeError):
        raise Invalid(
            message("A port mapping is incomplete."),
            port_mappings=message("container_port and host_port are needed."),
        ) from None
    for number in (port.container_port, port.host_port):
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 65535:
            raise Invalid(
                message("A port is a number from 1 to 65535."),
                port_mappings=message("Ports are numbers from 1 to 65535."),
            )
    if port.protocol not in ("tcp", "udp"):
        raise Invalid(message("The protocol is tcp or udp."), port_mappings=message("The protocol is tcp or udp."))
    return port


def get_service_name(services: yaml.MappingNode, port: Port, otherwise: str | None) -> str:
    """Return the name of the service that uses this container port, else `otherwise` if it is a service, else the first
    one."""
    names: list[str] = [name.value for name, _ in services.value]
    for key in ("ports", "expose"):
        for name, node in services.value:
            entries = find_node(node, key)
            if isinstance(entries, yaml.SequenceNode) and any(is_entry_of_port(entry, port) for entry in entries.value):
                return name.value
    return next((name for name in names if name == otherwise), names[0])


def is_entry_of_port(entry: yaml.Node, port: Port) -> bool:
    """Return whether an entry of `ports` or `expose` is for this container port."""
    if isinstance(entry, yaml.MappingNode):
        target, protocol = find_node(entry, "target"), find_node(entry, "protocol")
        text = f"{target.value if target else ''}/{protocol.value if protocol else 'tcp'}"
    else:
        text = DEFAULT_VALUE_PATTERN.sub(r"\1", str(entry.value))
    container_ports, _, protocol = text.rpartition(":")[2].partition("/")
    first, _, last = container_ports.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        return False
    return (protocol or "tcp") == port.protocol and int(first) <= port.container_port <= int(last or first)


def find_node(mapping: yaml.Node | None, key: str) -> yaml.Node | None:
    """Return the value node of the key, also from merged mappings (`<<`); None when there is none."""
    visited, queue = set(), [mapping]
    while queue:
        node = queue.pop(0)
        if id(node) in visited or not isinstance(node, yaml.CollectionNode):
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            queue[:0] = node.value
            continue
        for name, value in node.value:
            if name.value == key:
                return value
        queue[:0] = [value for name, value in node.value if name.value == MERGE_KEY]
    return None


def replace_ports(service: yaml.MappingNode, ports: Iterable[Port]) -> yaml.MappingNode:
    """Return the service with these published ports. Other services that share its node stay as they are."""
    entries = [f"{port.host_port}:{port.container_port}/{port.protocol}" for port in ports]
    nodes = [yaml.ScalarNode(STRING_TAG, entry, style='"') for entry in entries]
    others = [(name, value) for name, value in service.value if name.value != "ports"]
    key = yaml.ScalarNode(STRING_TAG, "ports")
    return yaml.MappingNode(
        MAP_TAG, [*others, (key, yaml.SequenceNode(SEQUENCE_TAG, nodes))], flow_style=service.flow_style
    )
