"""The tools of every API module: routes, response envelopes, paging.

One decorator declares the parameters, the response and the permission of an operation:

    @user.get("/ssh-keys", op="list", can="ssh_keys.view", query=PageQuery, out=page(SshKeyOut))

`can` has no default, so an operation without a permission fails at import. The two dialects are the classes User and
Admin; only Admin knows the envelope (ENV-01).

Lists are paged: their `query` derives from PageQuery, and the view passes its whole select to `paginate`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, wraps
from typing import Any

import flask_smorest
from flask import g
from flask.blueprints import BlueprintSetupState
from marshmallow import Schema, fields

from api import idempotency
from api.errors import raise_on_failure
from api.paging import (
    Meta,
    RequestedPage,
    Rows,
    build_admin_page_schema,
    build_page_schema,
    get_schema_name,
    paginate,
    paginate_list,
    with_page,
)
from api.request_parsing import Parser
from panel.auth import permissions, requires_permission
from panel.schemas.base import PageQuery, describe
from panel.services import usage
from panel.services.access import Access

__all__ = [
    "Admin",
    "Billing",
    "Meta",
    "PageQuery",
    "RequestedPage",
    "User",
    "build_admin_page_schema",
    "build_page_schema",
    "get_current_access",
    "get_current_actor",
    "paginate",
    "paginate_list",
    "set_message",
]


ID_SEGMENT = re.compile(r"<(\w+_id)>")

CSV_RESPONSE = {"type": "string", "description": "A header line, then one line per row (RFC 4180)."}
"""`out` of an operation that answers with CSV (panel.web.csv_export). Both dialects send it without an envelope."""

FILE_RESPONSE = {"type": "string", "format": "binary", "description": "The content of the file."}
"""`out` of an operation of the customers' dialect that answers with a file."""
METRICS_RESPONSE = {"type": "string", "description": "Samples in Prometheus' text format, version 0.0.4."}
"""`out` of an operation of the customers' dialect that Prometheus scrapes."""
CONTENT_TYPES = {
    id(CSV_RESPONSE): "text/csv",
    id(FILE_RESPONSE): "application/octet-stream",
    id(METRICS_RESPONSE): "text/plain",
}


class Resource(flask_smorest.Blueprint):
    """A blueprint whose routes declare parameters, response and permission in one place."""

    ARGUMENTS_PARSER = Parser()
    surface = prefix = ""
    repeatable: tuple[str, ...] = ("POST",)
    """Methods that support `Idempotency-Key` (api.idempotency)."""

    def __init__(self, name: str, module: str, **options: Any) -> None:
        self.resource = name
        super().__init__(f"{self.surface}_{name}", module, url_prefix=self.prefix, **options)

    def register_views_in_doc(self, api: Any, *args: Any, **options: Any) -> None:
        """Defer the description of the operations to the first request for the document."""
        api.deferred_descriptions.append(partial(super().register_views_in_doc, api, *args, **options))

    def route(
        self,
        rule: str,
        *,
        op: str,
        can: str,
        query: type[Schema] | None = None,
        body: type[Schema] | None = None,
        out: Any = None,
        status: int = 200,
        aliases: Sequence[str] = (),
        unscoped_kind: str | None = None,
        budget: str = "requests",
        billed: bool = False,
        writes: bool = False,
        once: bool = True,
        idempotency_key: Any = None,
        **options: Any,
    ) -> Any:
        """Register an operation.

        `aliases`: further, undocumented paths of the same view. `unscoped_kind`: the kind of token that needs no scope.
        `budget`: the rate limit that counts the request (panel.ratelimit.api_budget). `billed`: refused while billing
        is off (BIL-10, `billing_disabled`). `writes`: must be set for a GET that writes (panel.core.db).
        `once`: support `Idempotency-Key` when the method is in `repeatable` (api.idempotency). `idempotency_key`: the
        documented parameter of an operation that handles the key itself.
        """

        def register(view: Callable[..., Any]) -> Callable[..., Any]:
            wrapped_view = self.with_schemas(view, query, body, out, status)
            scope = self.scope(rule, *options["methods"])
            extensions: dict[str, Any] = {"x-permission": can} | ({"x-scope": scope} if scope else {})
            key = idempotency_key
            operation = f"{self.surface}.{self.resource}.{op}"
            if billed:
                wrapped_view, extensions = require_billing(wrapped_view), {**extensions, "x-billed": True}
            if once and options["methods"][0] in self.repeatable:
                wrapped_view, key = idempotency.idempotent(wrapped_view), idempotency.IDEMPOTENCY_PARAMETER
            if key:
                extensions["x-idempotency-key"] = key
            wrapped_view = self.doc(operationId=operation, **extensions)(wrapped_view)
            wrapped_view = requires_permission(can, scope, unscoped_kind, operation, budget, writes)(wrapped_view)
            endpoint = f"{op}".replace(".", "_")
            super(Resource, self).route(with_id_converter(rule), tags=[self.resource], endpoint=endpoint, **options)(
                wrapped_view
            )
            for number, path in enumerate(aliases):
                self.record(
                    add_extra_path(
                        with_id_converter(path), f"{self.name}_{endpoint}_{number}", wrapped_view, options["methods"]
                    )
                )
            return view

        return register

    def with_schemas(
        self,
        view: Callable[..., Any],
        query: type[Schema] | None,
        body: type[Schema] | None,
        out: Any,
        status: int,
    ) -> Callable[..., Any]:
        """Return the view with validated parameters and a serialized response."""
        paged = with_page(view, query, self.surface) if query and issubclass(query, PageQuery) else view
        content_type = CONTENT_TYPES.get(id(out))
        wrapped_view = self.response(status, out, content_type=content_type)(raise_on_failure(paged))
        if body:
            wrapped_view = self.arguments(body())(wrapped_view)
        if query:
            wrapped_view = self.arguments(query(), location="query")(wrapped_view)
        return wrapped_view

    def scope(self, rule: str, method: str) -> str | None:
        """Return the scope that a token needs, or None where tokens of the surface have no scopes."""


def with_id_converter(rule: str) -> str:
    """Return the rule with the id converter, so that a word in a path is never taken for an id."""
    return ID_SEGMENT.sub(r"<id:\1>", rule)


def require_billing(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return the view, guarded by usage.ensure_billing_enabled."""

    @wraps(view)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        usage.ensure_billing_enabled(get_current_access())
        return view(*args, **kwargs)

    return guarded


def add_extra_path(
    path: str, endpoint: str, view: Callable[..., Any], methods: Sequence[str]
) -> Callable[[BlueprintSetupState], None]:
    return lambda state: state.app.add_url_rule(path, endpoint, view, methods=methods)


class User(Resource):
    """The customers' dialect: each endpoint has its own response shape."""

    surface, prefix = "user", "/api"

    def scope(self, rule: str, method: str) -> str | None:
        """Return the scope that follows from path and method, independent of `op` (IDT-26)."""
        return permissions.find_required_scope(rule, method)


class Admin(Resource):
    """The operators' dialect: every response is {success, message, data}."""

    surface, prefix = "admin", "/api/v1"
    repeatable = ("POST", "PUT", "PATCH", "DELETE")

    @staticmethod
    def _prepare_response_content(data: Any) -> dict[str, Any]:
        body = {"success": True, "message": None}
        if isinstance(data, dict) and "__rows__" in data:
            return {**body, "data": data["__rows__"], "meta": data["meta"]}
        return {**body, "message": g.pop("envelope_message", None), **({} if data is None else {"data": data})}

    @staticmethod
    def _make_doc_response_schema(schema: Any) -> Any:
        if schema is CSV_RESPONSE:
            return schema
        many = schema is not None and schema.many
        documented: Any = schema if isinstance(schema, Rows) or schema is None else type(schema)
        return build_envelope_schema(documented, many)


class Billing(Admin):
    """The billing systems' surface: the operators' dialect with tokens of its own."""

    surface, prefix = "billing", "/api/v1/billing"


PAYLOAD_DESCRIPTION = describe("The requested resource or resources.")
SUCCESS_DESCRIPTION = describe("Always true. Errors have their own format.", True)


@cache
def build_wrapped_schema(key: str, schema: Any) -> Schema:
    """Return a schema of `{success, message, <key>: {…}}`."""
    name = f"{get_schema_name(schema)}Under{key.title().replace('_', '')}"
    return Done.from_dict({key: fields.Nested(schema, **PAYLOAD_DESCRIPTION)}, name=name)()


class Done(Schema):
    """The result of an action: `{success, message}`."""

    success = fields.Boolean(dump_default=True, **SUCCESS_DESCRIPTION)
    message = fields.String(allow_none=True, dump_default=None, **describe("Result as a sentence.", "Start requested."))


@cache
def build_result_schema(**fields_by_name: Any) -> Schema:
    """Return a schema of `{success, message}` and further fields, which are optional in the response."""
    schema = Done.from_dict(
        fields_by_name, name="Done" + "".join(name.title().replace("_", "") for name in fields_by_name)
    )
    return with_optional(schema, fields_by_name)()


def with_optional(schema: Any, names: Iterable[str]) -> Any:
    """Return the schema class; its document says that responses have these fields only sometimes."""
    schema.sometimes = tuple(names)
    return schema


@cache
def build_envelope_schema(schema: Any, many: bool = False) -> Any:
    """Return the schema of an answer in the operators' envelope, for the OpenAPI document."""
    declared: dict[str, fields.Field] = {
        "success": fields.Boolean(**SUCCESS_DESCRIPTION),
        "message": fields.String(allow_none=True, **describe("Result as a sentence.", "Start requested.")),
    }
    if isinstance(schema, Rows):
        declared["data"] = schema.fields["__rows__"]
        declared["meta"] = fields.Nested(Meta, **describe("Paging: page number, page size and total."))
        return Schema.from_dict(declared, name=f"{type(schema).__name__}List")()
    if schema is not None:
        declared["data"] = fields.Nested(schema, many=many, **PAYLOAD_DESCRIPTION)
    kind = "Array" if many else ""
    return Schema.from_dict(declared, name=f"{get_schema_name(schema)}{kind}Envelope" if schema else "Envelope")()


def set_message(message: str) -> None:
    """Set `message` of the envelope of this request's response."""
    g.envelope_message = message


def get_current_access() -> Access:
    """Return the access of the token: its account, and for a team member the permissions."""
    return g.caller.access


def get_current_actor() -> str:
    return g.caller.actor
