"""The tools of the sandbox API's modules: routes and bodies."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flask import Blueprint, g, request
from marshmallow import EXCLUDE, Schema, ValidationError

from api import idempotency
from api.errors import SANDBOX_PREFIX
from panel.auth.sandbox_keys import requires_sandbox_key
from panel.core.errors import Invalid, Problem

bp = Blueprint("sandbox_api", __name__, url_prefix=SANDBOX_PREFIX)


class Body(Schema):
    """A body that the SDKs send. They add fields from release to release, so unknown ones are ignored."""

    class Meta:
        unknown = EXCLUDE


def route(method: str, *paths: str, op: str, can: str, once: bool = False) -> Callable[[Any], Any]:
    """Register an operation under its paths, one for each generation of the routes.

    `can`: the permission. `once`: support `Idempotency-Key`.
    """

    def register(view: Any) -> Any:
        guarded = idempotency.idempotent(view) if once else view
        guarded = requires_sandbox_key(can, f"sandbox.api.{op}")(guarded)
        for number, path in enumerate(paths):
            endpoint = f"{op}_{number}" if number else op
            bp.add_url_rule(path, endpoint, guarded, methods=[method])
        return view

    return register


def read_body(schema: type[Schema]) -> dict[str, Any]:
    """Return the validated body; an absent one is empty. The SDKs take only some statuses, so errors are 400."""
    body = request.get_json(force=True, silent=True) if request.get_data() else {}
    if not isinstance(body, dict):
        raise Problem("The body must be a JSON object.", status=400)
    try:
        return schema().load(body)
    except ValidationError as error:
        raise Problem(f"Invalid body: {describe_errors(error.messages)}", status=400) from None


@contextmanager
def name_network_field(prefix: str = "") -> Iterator[None]:
    """Answer 400 with the field of the body for what cannot be allowed without internet access."""
    try:
        yield
    except Invalid as error:
        if error.reason != "no_internet_access":
            raise
        field = "allowOut" if "allow_out" in error.fields else "allow_internet_access"
        raise Problem(f"{prefix}{field}: {error.message}", status=400, reason=error.reason) from None


def describe_errors(messages: Any, name: str = "") -> str:
    """Return nested messages of a validation as one sentence."""
    if isinstance(messages, dict):
        parts = (describe_errors(inner, f"{name}.{key}".lstrip(".")) for key, inner in messages.items())
        return " ".join(parts)
    return f"{name}: {' '.join(map(str, messages))}"


def is_second_generation() -> bool:
    """Return whether the request came by a path below `/v2`."""
    return request.path.startswith(f"{SANDBOX_PREFIX}/v2/")


def get_access():
    return g.caller.access


def get_actor():
    return g.caller.actor


def empty_answer():
    return "", 204
