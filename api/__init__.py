"""The REST surfaces: what customers' and operators' programs use."""

import flask_smorest
from flask import Flask

import panel
from api import docs, errors

USER = "USER"
ADMIN = "ADMIN"


class UserApi(flask_smorest.Api):
    ERROR_SCHEMA = errors.UserError

    def _register_error_handlers(self):
        """Failures are answered in one place for all surfaces (panel.app)."""


class AdminApi(UserApi):
    ERROR_SCHEMA = errors.AdminError


def resources():
    """The table of contents: every module here with routes, in the order of the reference."""
    from api import (
        accounts,
        catalog,
        connect,
        hypervisor_groups,
        hypervisor_storages,
        hypervisors,
        images,
        instances,
        ips,
        locations,
        plan_groups,
        plans,
        ssh_keys,
        subnets,
        tasks,
    )

    customers = connect, instances, tasks, catalog, ssh_keys
    operators = (
        hypervisor_groups,
        hypervisors,
        hypervisor_storages,
        locations,
        plan_groups,
        plans,
        images,
        subnets,
        ips,
        accounts,
    )
    return customers + operators


def register(app: Flask):
    """Adds both surfaces to the application and returns their two OpenAPI builders."""
    built = {}
    for kind, api, title in ((USER, UserApi, "User API"), (ADMIN, AdminApi, "Admin API")):
        app.config |= {
            f"{kind}_API_TITLE": title,
            f"{kind}_API_VERSION": panel.__version__,
            f"{kind}_OPENAPI_VERSION": "3.1.0",
        }
        built[kind] = api(app, config_prefix=kind, spec_kwargs={"security": [{"bearer": []}]})
        built[kind].spec.components.security_scheme("bearer", {"type": "http", "scheme": "bearer"})
    for module in resources():
        for kind in built:
            blueprint = getattr(module, kind.lower(), None)
            if blueprint:
                built[kind].register_blueprint(blueprint)
    app.register_blueprint(docs.bp)
    return built
