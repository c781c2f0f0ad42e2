"""The context of the tab with an instance's container apps."""

import ipaddress
from dataclasses import dataclass

from panel.pages.shared.area import is_operator_area, permission_error
from panel.services import docker_apps, docker_deployments
from panel.services.docker_deployments import firewall_ports
from panel.web.translation import gettext as _

MANAGE_PERMISSION = "instances.manage"
NON_HTTP_PORTS = (22, 25, 53, 3306, 5432, 6379, 27017)
"""Container ports of protocols other than HTTP."""
TLS_PORTS = (443, 8443, 9443)


@dataclass(frozen=True)
class ExposedPort:
    """A port of the machine that reaches an app. `url` is None when the port is not HTTP."""

    text: str
    url: str | None
    is_closed: bool
    """Whether no security group allows inbound traffic to the port."""


def find_error_message(reason, permission=MANAGE_PERMISSION):
    """Return the message of a refusal, or None."""
    return permission_error(permission) or docker_deployments.DOCKER_REASONS.get(reason)


def build_context(instance):
    """Return the context of the tab."""
    rows = docker_deployments.listing(instance)
    engine = docker_deployments.find_engine(instance)
    by_operator = is_operator_area()
    error = docker_deployments.guest_error(instance, by_operator=by_operator)
    return {
        "apps": [(row, list_exposed_ports(instance, row.ports)) for row in rows],
        "docker_enabled": docker_deployments.is_engine_installed(instance),
        "engine": engine,
        "installation": docker_deployments.find_installation(instance),
        "install_error": find_error_message(docker_deployments.install_error(instance, by_operator=by_operator)),
        "deploy_error": find_error_message(docker_deployments.deploy_error(instance, by_operator=by_operator)),
        "control_error": find_error_message(docker_deployments.engine_error(instance, by_operator=by_operator)),
        "remove_error": find_error_message(error if error in docker_deployments.REMOVAL_BLOCKERS else None),
        "logs_error": permission_error("instances.console"),
    }


def list_exposed_ports(instance, ports):
    """Return an ExposedPort for each port mapping."""
    address = instance.ipv4 or instance.ipv6 or instance.private_ipv4
    shut = firewall_ports.list_closed_ports(instance, ports) if ports else []
    return [build_exposed_port(address, port, port in shut) for port in ports]


def build_exposed_port(address, port, shut):
    inner, outer, protocol = port["container_port"], port["host_port"], port["protocol"]
    plain = f"port {outer}" if protocol == "tcp" else f"port {outer}/udp"
    if address is None or protocol != "tcp" or inner in NON_HTTP_PORTS:
        return ExposedPort(plain, None, shut)
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    scheme = "https" if inner in TLS_PORTS else "http"
    usual = outer == {"http": 80, "https": 443}[scheme]
    return ExposedPort(
        f"{host}{'' if usual else f':{outer}'}", f"{scheme}://{host}{'' if usual else f':{outer}'}", shut
    )


def list_apps(instance, search):
    """Return (app, warning or None) for the catalog's apps that match all words of the search."""
    terms = search.lower().split()
    apps = []
    for app in docker_apps.listing():
        text = f"{app.name} {app.slug} {app.category} {app.description}".lower()
        if all(term in text for term in terms):
            small = app.min_memory_mb > instance.ram
            apps.append(
                (
                    app,
                    _("It needs %(min_memory_mb)s MiB of memory.", min_memory_mb=app.min_memory_mb) if small else None,
                )
            )
    return apps
