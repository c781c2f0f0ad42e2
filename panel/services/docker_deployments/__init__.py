"""Container apps in guests: which actions there are, and when they are allowed. Callers have been authorized."""

from panel.services.docker_deployments.actions import REMOVAL_BLOCKERS, control, install, remove, request_probe
from panel.services.docker_deployments.deploy import deploy_app, deploy_compose, retry
from panel.services.docker_deployments.ports import list_taken_ports
from panel.services.docker_deployments.read import (
    find_engine,
    find_installation,
    get,
    get_logs,
    is_engine_installed,
    listing,
)
from panel.services.docker_deployments.refusals import (
    DOCKER_REASONS,
    deploy_error,
    engine_error,
    guest_error,
    install_error,
)

__all__ = [
    "DOCKER_REASONS",
    "REMOVAL_BLOCKERS",
    "control",
    "deploy_app",
    "deploy_compose",
    "deploy_error",
    "engine_error",
    "find_engine",
    "find_installation",
    "get",
    "get_logs",
    "guest_error",
    "install",
    "install_error",
    "is_engine_installed",
    "list_taken_ports",
    "listing",
    "remove",
    "request_probe",
    "retry",
]
