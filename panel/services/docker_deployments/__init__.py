"""Container apps in guests: what can be done with them, and when. Callers have been authorised."""

from panel.services.docker_deployments.actions import HELD, check, control, install, remove
from panel.services.docker_deployments.deploy import deploy_app, deploy_compose, retry
from panel.services.docker_deployments.ports import taken
from panel.services.docker_deployments.read import enabled, engine, get, installing, listing, logs
from panel.services.docker_deployments.refusals import WORDS, refusal, why_no_deploy, why_no_install, why_not

__all__ = [
    "HELD",
    "WORDS",
    "check",
    "control",
    "deploy_app",
    "deploy_compose",
    "enabled",
    "engine",
    "get",
    "install",
    "installing",
    "listing",
    "logs",
    "refusal",
    "remove",
    "retry",
    "taken",
    "why_no_deploy",
    "why_no_install",
    "why_not",
]
