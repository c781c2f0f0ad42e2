"""The REST surfaces: the APIs of customers, operators and billing systems."""

from importlib import import_module
from threading import Lock

import flask_smorest
from flask import Flask
from werkzeug.routing import BaseConverter

import panel
from api import docs, errors, sandbox

USER = "USER"
ADMIN = "ADMIN"


class IdConverter(BaseConverter):
    """Ids in paths: UUIDs as text."""

    regex = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"


class UserApi(flask_smorest.Api):
    """A surface whose document is generated on first request, because generating it takes a third of a process's
    start."""

    ERROR_SCHEMA = errors.UserError

    def __init__(self, *args, **options):
        self.deferred_descriptions, self.lock = [], Lock()
        super().__init__(*args, **options)

    def describe_operations(self):
        """Add all operations to `spec`."""
        with self.lock:
            while self.deferred_descriptions:
                self.deferred_descriptions.pop(0)()


class AdminApi(UserApi):
    ERROR_SCHEMA = errors.AdminError


CUSTOMER_MODULES = (
    "connect instances metrics instance_backups backup_copies backup_operations backup_policies tasks catalog "
    "image_captures isos ssh_keys user_scripts security_groups ip_sets projects usage profile dashboard team tokens "
    "microvm_api_keys volumes certificates webhooks activity inbox announcements microvms "
    "notification_channels alert_rules monitoring"
)
OPERATOR_MODULES = (
    "hypervisor_groups group_grants hypervisors unmanaged_machines migrations hypervisor_storages backup_destinations "
    "backup_jobs installation_backups locations plan_groups plans images image_groups subnets ips accounts "
    "user_ssh_keys sessions impersonations credits billing resource_packs currencies roles "
    "settings branding mail_templates mass_mails mass_mail_templates failed_jobs system_health audit"
)
RESOURCE_MODULES = (*CUSTOMER_MODULES.split(), *OPERATOR_MODULES.split())
"""All modules with routes, in the order of the API reference."""


def import_resources():
    return [import_module(f"api.{name}") for name in RESOURCE_MODULES]


def register(app: Flask):
    """Register both surfaces with the application. Return {surface: flask_smorest.Api}."""
    built = {}
    app.url_map.converters["id"] = IdConverter
    for kind, api, title in ((USER, UserApi, "User API"), (ADMIN, AdminApi, "Admin API")):
        app.config |= {
            f"{kind}_API_TITLE": title,
            f"{kind}_API_VERSION": panel.INTERFACE_VERSION,
            f"{kind}_OPENAPI_VERSION": "3.1.0",
        }
        built[kind] = api(app, config_prefix=kind, spec_kwargs={"security": [{"bearer": []}]})
        built[kind].register_converter(IdConverter, lambda converter: {"type": "string", "format": "uuid"})
        built[kind].spec.components.security_scheme("bearer", {"type": "http", "scheme": "bearer"})
    for module in import_resources():
        for surface, kind in (("user", USER), ("admin", ADMIN), ("billing", ADMIN)):
            for blueprint in list_blueprints(module, surface):
                built[kind].register_blueprint(blueprint)
    app.register_blueprint(docs.bp)
    sandbox.register(app)
    return built


def list_blueprints(module, surface):
    """Return a module's blueprints for a surface as a tuple. A module has none, one, or a tuple of several."""
    blueprints = getattr(module, surface, ())
    return blueprints if isinstance(blueprints, tuple) else (blueprints,)
