"""Serves the sandbox API at the root of a host name of its own: `api.` before the domain of sandboxes."""

from api.errors import SANDBOX_PREFIX
from panel.core import context

API_LABEL = "api."


class SandboxHost:
    """Puts the prefix of the sandbox API before the paths of requests for its host (SBX-10)."""

    def __init__(self, application):
        self.application = application

    def __call__(self, environ, start_response):
        domain = context.current().config.sandbox_domain
        if domain and is_api_host(environ.get("HTTP_HOST", ""), domain):
            environ = {**environ, "PATH_INFO": SANDBOX_PREFIX + environ.get("PATH_INFO", "")}
        return self.application(environ, start_response)


def is_api_host(host, domain):
    """Return whether a Host header names the API. The port does not matter: a proxy may have changed it."""
    return host.lower().partition(":")[0] == API_LABEL + domain.partition(":")[0]
