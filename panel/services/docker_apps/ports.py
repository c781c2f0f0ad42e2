"""The ports that a compose file publishes, and others in their place.

The file is taken apart as a tree of YAML nodes and written down from it, word for word: Compose reads some words in
another way than Python does (`22:22`, `on`). And a few aliases that stand for gigabytes stay a few aliases.
"""

import re
from dataclasses import dataclass

import yaml

from panel.core.errors import Invalid

MAX_COMPOSE_FILE_BYTES = 256 * 1024
"""Bytes of a compose file."""
MAP_TAG = "tag:yaml.org,2002:map"
SEQUENCE_TAG = "tag:yaml.org,2002:seq"
STRING_TAG = "tag:yaml.org,2002:str"
MERGE_KEY = "<<"
DEFAULT_VALUE_PATTERN = re.compile(r"\$\{\w+:?-([^}]*)\}")


class Reader(yaml.SafeLoader):
    """Takes no plain word for a number, a date or anything else."""

    yaml_implicit_resolvers = {}

    def compose_scalar_node(self, anchor):
        plain, tagged = self.peek_event().implicit[0], self.peek_event().tag
        node = super().compose_scalar_node(anchor)
        if plain and not node.value:
            node.value = "null"  # what an empty place means, which not every place may be
        if tagged and node.tag == STRING_TAG and not node.style:
            node.style = '"'
        return node


class Writer(yaml.SafeDumper):
    """Writes plain words as they were."""

    yaml_implicit_resolvers = {}


@dataclass(frozen=True)
class Port:
    container_port: int
    host_port: int
    protocol: str


def parse_ports(entries) -> tuple[Port, ...]:
    """Of a list of short entries, `8080:80` and `53:53/udp`."""
    found = [re.fullmatch(r"(\d+):(\d+)(?:/(tcp|udp))?", entry) for entry in entries]
    return tuple(Port(int(each[2]), int(each[1]), each[3] or "tcp") for each in found)


def remap_ports(text: str, port_mappings: list, service: str | None = None) -> str:
    """The compose file with these ports: each mapping (a dict of `container_port`, `host_port`, perhaps `protocol`)
    goes to the service that publishes or exposes that container port, else to `service`, else to the first one; and
    the services that get some publish those and no others. Without mappings the file stays as it is. Raises Invalid,
    naming `compose_url` for a file that is none and `port_mappings`."""
    root = parse_compose_file(text)
    services = find_node(root, "services")
    if not isinstance(services, yaml.MappingNode) or not services.value:
        raise Invalid("This is no compose file: it has no services.", compose_url="The file has no services.")
    for name, found in services.value:
        if not isinstance(found, yaml.MappingNode):
            problem = f"The service {name.value!s} is no mapping."
            raise Invalid(f"This is no compose file. {problem}", compose_url=problem)
    mappings = [parse_mapping(each) for each in port_mappings or ()]
    if not mappings:
        return text
    taken = [(port.host_port, port.protocol) for port in mappings]
    if len(set(taken)) < len(taken):
        raise Invalid("Two mappings have the same host port.", port_mappings="A host port can be used once.")
    wanted = {}
    for port in mappings:
        wanted.setdefault(get_service_name(services, port, service), []).append(port)
    services.value = [
        (name, replace_ports(found, wanted[name.value]) if name.value in wanted else found)
        for name, found in services.value
    ]
    return yaml.serialize(root, Dumper=Writer, allow_unicode=True, width=120)


def parse_compose_file(text):
    """The file's tree of nodes. Raises Invalid."""
    if len(text.encode()) > MAX_COMPOSE_FILE_BYTES:
        problem = f"The file is larger than {MAX_COMPOSE_FILE_BYTES // 1024} KiB."
    else:
        try:
            root = yaml.compose(text, Reader)
            if isinstance(root, yaml.MappingNode):
                return root
            problem = "The file is no YAML mapping."
        except (yaml.YAMLError, ValueError) as error:
            problem = f"The file is not valid YAML: {str(error).splitlines()[0]}."
        except RecursionError:
            problem = "The file is nested too deeply."
    raise Invalid(f"This is no compose file. {problem}", compose_url=problem)


def parse_mapping(mapping):
    try:
        port = Port(mapping["container_port"], mapping["host_port"], mapping.get("protocol") or "tcp")
    except (KeyError, TypeError, AttributeError):
        raise Invalid(
            "A port mapping is not complete.", port_mappings="container_port and host_port are needed."
        ) from None
    for number in (port.container_port, port.host_port):
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 65535:
            raise Invalid("A port is a number from 1 to 65535.", port_mappings="Ports are numbers from 1 to 65535.")
    if port.protocol not in ("tcp", "udp"):
        raise Invalid("The protocol is tcp or udp.", port_mappings="The protocol is tcp or udp.")
    return port


def get_service_name(services, port, otherwise):
    """The name of the service that this port is of."""
    names = [name.value for name, _ in services.value]
    for key in ("ports", "expose"):
        for name, found in services.value:
            entries = find_node(found, key)
            if isinstance(entries, yaml.SequenceNode) and any(is_entry_of_port(each, port) for each in entries.value):
                return name.value
    return otherwise if otherwise in names else names[0]


def is_entry_of_port(entry, port):
    """Whether an entry of `ports` or `expose` is of this container port."""
    if isinstance(entry, yaml.MappingNode):
        target, protocol = find_node(entry, "target"), find_node(entry, "protocol")
        words = f"{target.value if target else ''}/{protocol.value if protocol else 'tcp'}"
    else:
        words = DEFAULT_VALUE_PATTERN.sub(r"\1", str(entry.value))
    inside, _, protocol = words.rpartition(":")[2].partition("/")
    first, _, last = inside.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        return False
    return (protocol or "tcp") == port.protocol and int(first) <= port.container_port <= int(last or first)


def find_node(mapping, key):
    """The node of that key, also of a mapping that is merged in (`<<`); None without one."""
    seen, waiting = set(), [mapping]
    while waiting:
        node = waiting.pop(0)
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting[:0] = node.value
            continue
        for name, found in node.value:
            if name.value == key:
                return found
        waiting[:0] = [found for name, found in node.value if name.value == MERGE_KEY]
    return None


def replace_ports(service, ports):
    """The service, publishing these ports; others that share its node stay as they are."""
    entries = [f"{port.host_port}:{port.container_port}/{port.protocol}" for port in ports]
    nodes = [yaml.ScalarNode(STRING_TAG, entry, style='"') for entry in entries]
    kept = [(name, found) for name, found in service.value if name.value != "ports"]
    key = yaml.ScalarNode(STRING_TAG, "ports")
    return yaml.MappingNode(
        MAP_TAG, [*kept, (key, yaml.SequenceNode(SEQUENCE_TAG, nodes))], flow_style=service.flow_style
    )
