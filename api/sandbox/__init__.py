"""The sandbox API: what the SDKs and the command line of E2B send, served by micro VMs.

Its contract is that of these clients, so its routes have paths, bodies and errors of their own and are in neither
document (docs/decisions/0020-sandbox-api.md). `api.sandbox.host` serves it for a host name of its own as well.
"""

from importlib import import_module

from flask import Flask

from api.sandbox.kit import bp

ROUTE_MODULES = ("sandboxes", "actions", "reports", "templates", "health")


def register(app: Flask) -> None:
    """Register the routes with the application."""
    for name in ROUTE_MODULES:
        import_module(f"api.sandbox.{name}")
    app.register_blueprint(bp)
