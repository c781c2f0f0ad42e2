"""The check of a destination on a remote backup server, up to the first step that fails."""

from panel.core.messages import message
from worker.backups.rbs.api import Api
from worker.backups.rbs.errors import FingerprintMismatch, ServerFailed
from worker.tasks.rbs_stores import build_server

REACHABILITY, AUTHENTICATION, NAMESPACE, PRIVILEGES = "reachability", "authentication", "namespace", "privileges"
CHECK_TIMEOUT_SECONDS = 6.0
"""Shorter than that of backups, because a request waits for the result. The server answers a wrong token after three
seconds."""

BACKUP_PRIVILEGES, DELETE_PRIVILEGES = {"Datastore.Backup"}, {"Datastore.Prune", "Datastore.Modify"}
"""One of each set is needed; to delete only where the panel does."""


def check_server(config):
    """Return the steps, and the sizes of the datastore."""
    api, steps, sizes = Api(build_server(config, timeout=CHECK_TIMEOUT_SECONDS)), [], {}
    checks = {
        REACHABILITY: api.server.read_certificate,
        AUTHENTICATION: api.get_version,
        NAMESPACE: api.list_groups,
        PRIVILEGES: lambda: ensure_privileges(api, config),
    }
    for name, check in checks.items():
        try:
            check()
        except ServerFailed as error:
            return [*steps, build_failed_step(find_failed_step(name, error), error)], {}
        steps.append({"name": name, "success": True, "message": None})
    return steps, sizes | get_sizes(api)


def ensure_privileges(api, config):
    granted = api.list_privileges()
    needed = [BACKUP_PRIVILEGES] + ([] if config.get("rbs_managed_retention") else [DELETE_PRIVILEGES])
    missing = [" or ".join(sorted(names)) for names in needed if not names & granted]
    if missing:
        raise ServerFailed("the privileges", ", ".join(missing), 403)


def get_sizes(api):
    """Return the sizes, or nothing where the token may not read them."""
    try:
        return api.get_sizes()
    except ServerFailed:
        return {}


def find_failed_step(name, error):
    """Return what the server's answer is about."""
    if error.status is None:
        return REACHABILITY
    return {401: AUTHENTICATION, 403: PRIVILEGES}.get(error.status, name)


def build_failed_step(name, error):
    reason = error.reason
    if isinstance(error, FingerprintMismatch):
        text = message("The server is not the one whose fingerprint is stored: {reason}.", reason=reason)
    else:
        text = {
            REACHABILITY: message("The server cannot be reached: {reason}.", reason=reason),
            AUTHENTICATION: message("The server does not accept the API token: {reason}.", reason=reason),
            NAMESPACE: message("The datastore or namespace cannot be used: {reason}.", reason=reason),
            PRIVILEGES: message("The API token lacks privileges: {reason}.", reason=reason),
        }[name]
    return {"name": name, "success": False, "message": str(text)}
