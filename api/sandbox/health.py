"""Whether the sandbox API is there."""

from api.sandbox.kit import empty_answer, route
from panel.auth import permissions


@route("GET", "/health", op="health", can=permissions.PUBLIC)
def show_health():
    return empty_answer()
