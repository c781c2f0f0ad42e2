"""What the pages of an instance show of its container apps."""

import ipaddress
from dataclasses import dataclass

from panel.pages.shared.area import operating
from panel.pages.shared.area import refusal as not_permitted
from panel.services import docker_apps, docker_deployments
from panel.services.docker_deployments import firewall_ports

MANAGE = "instances.manage"
TALKED_TO = (22, 25, 53, 3306, 5432, 6379, 27017)
"""Ports of containers that no browser understands."""
ENCRYPTED = (443, 8443, 9443)


@dataclass(frozen=True)
class Door:
    """A port of the machine at which an app is reached. `url` is None where a browser is of no use."""

    words: str
    url: str | None
    shut: bool
    """No security group lets anybody in there."""


def why(reason, permission=MANAGE):
    """A refusal as a sentence, or None."""
    return not_permitted(permission) or docker_deployments.WORDS.get(reason)


def shown(instance):
    """What the tab reads."""
    rows = docker_deployments.listing(instance)
    engine = docker_deployments.engine(instance)
    by_operator = operating()
    here = docker_deployments.refusal(instance, by_operator=by_operator)
    return {
        "apps": [(row, doors(instance, row.ports)) for row in rows],
        "docker_enabled": docker_deployments.enabled(instance),
        "engine": engine,
        "installation": docker_deployments.installing(instance),
        "no_install": why(docker_deployments.why_no_install(instance, by_operator=by_operator)),
        "no_deploy": why(docker_deployments.why_no_deploy(instance, by_operator=by_operator)),
        "no_control": why(docker_deployments.why_not(instance, by_operator=by_operator)),
        "no_remove": why(here if here in docker_deployments.HELD else None),
        "no_logs": not_permitted("instances.console"),
    }


def doors(instance, ports):
    """How the ports are reached from outside."""
    address = instance.ipv4 or instance.ipv6 or instance.private_ipv4
    shut = firewall_ports.shut(instance, ports) if ports else []
    return [door(address, port, port in shut) for port in ports]


def door(address, port, shut):
    inner, outer, protocol = port["container_port"], port["host_port"], port["protocol"]
    plain = f"port {outer}" if protocol == "tcp" else f"port {outer}/udp"
    if address is None or protocol != "tcp" or inner in TALKED_TO:
        return Door(plain, None, shut)
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    scheme = "https" if inner in ENCRYPTED else "http"
    usual = outer == {"http": 80, "https": 443}[scheme]
    return Door(f"{host}{'' if usual else f':{outer}'}", f"{scheme}://{host}{'' if usual else f':{outer}'}", shut)


def offered(instance, search):
    """The catalog's apps with the words in their texts, each with what speaks against it here."""
    words = search.lower().split()
    found = []
    for app in docker_apps.listing():
        text = f"{app.name} {app.slug} {app.category} {app.description}".lower()
        if all(word in text for word in words):
            small = app.min_memory_mb > instance.ram
            found.append((app, f"It should have {app.min_memory_mb} MiB of memory." if small else None))
    return found
