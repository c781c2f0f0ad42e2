"""What every API module is written with: the route row, the shapes of answers, paging.

One row says what an operation takes, gives and requires:

    @user.get("/ssh-keys", op="list", can="ssh_keys.view", query=PageQuery, out=page(SshKeyOut))

`can` has no default: an operation without a permission does not start. The two dialects are two classes; nothing else
knows about the admin envelope (specification 4.1).

A list is asked for a page at a time: `query` then derives from PageQuery, and the view hands `paginate` its whole
select.
"""

import re
from functools import cache, wraps

import flask_smorest
from flask import g
from marshmallow import Schema, fields

from api import idempotency
from api.errors import raise_on_failure
from api.paging import Meta, Page, Rows, admin_page, page, paginate, paginate_list, schema_name, with_page
from api.request_parsing import Parser
from panel.auth import permissions
from panel.auth import requires_permission as guard
from panel.schemas.base import PageQuery, about
from panel.services import usage

__all__ = [
    "Admin",
    "Billing",
    "Meta",
    "Page",
    "PageQuery",
    "User",
    "account",
    "actor",
    "admin_page",
    "page",
    "paginate",
    "paginate_list",
    "set_message",
]


ID_SEGMENT = re.compile(r"<(\w+_id)>")

CSV = {"type": "string", "description": "A line of names, then a line for each row (RFC 4180)."}
"""The `out` of an operation that answers with a table (panel.web.csv_export): in both dialects the table alone."""


class Resource(flask_smorest.Blueprint):
    """A blueprint whose routes say in one place what they take, give and require."""

    ARGUMENTS_PARSER = Parser()
    surface = prefix = ""
    repeatable = ("POST",)
    """Methods whose `Idempotency-Key` is honoured (api.idempotency)."""

    def __init__(self, name, module, **options):
        self.resource = name
        super().__init__(f"{self.surface}_{name}", module, url_prefix=self.prefix, **options)

    def route(
        self,
        rule,
        *,
        op,
        can,
        query=None,
        body=None,
        out=None,
        status=200,
        also=(),
        unscoped_kind=None,
        budget="requests",
        billed=False,
        writes=False,
        once=True,
        idempotency_key=None,
        **options,
    ):
        """Registers an operation. `also` lists further paths that are served the same but not documented; tokens of
        `unscoped_kind` need no scope for it; `budget` is the rate limit that it counts in (panel.ratelimit.api_budget);
        one that is `billed` is shut while billing is off (specification 7.2, `billing_disabled`); a GET that `writes`
        has to say so (panel.db); what is `repeatable` is carried out `once` for each
        `Idempotency-Key` (api.idempotency); an operation that looks after that itself documents its own
        `idempotency_key`."""

        def register(view):
            asked = with_page(view, query, self.surface) if query and issubclass(query, PageQuery) else view
            served = self.response(status, out, content_type="text/csv" if out is CSV else None)(
                raise_on_failure(asked)
            )
            if body:
                served = self.arguments(body())(served)
            if query:
                served = self.arguments(query(), location="query")(served)
            scope = self.scope(rule, *options["methods"])
            facts = {"x-permission": can} | ({"x-scope": scope} if scope else {})
            key = idempotency_key
            operation = f"{self.surface}.{self.resource}.{op}"
            if billed:
                served, facts = require_billing(served), {**facts, "x-billed": True}
            if once and options["methods"][0] in self.repeatable:
                served, key = idempotency.idempotent(served), idempotency.IDEMPOTENCY_PARAMETER
            if key:
                facts["x-idempotency-key"] = key
            served = self.doc(operationId=operation, **facts)(served)
            served = guard(can, scope, unscoped_kind, operation, budget, writes)(served)
            endpoint = f"{op}".replace(".", "_")
            super(Resource, self).route(with_id_converter(rule), tags=[self.resource], endpoint=endpoint, **options)(
                served
            )
            for number, path in enumerate(also):
                self.record(
                    extra_path(with_id_converter(path), f"{self.name}_{endpoint}_{number}", served, options["methods"])
                )
            return view

        return register

    def scope(self, rule, method):
        """The scope that a token needs, if tokens of this surface have any."""


def with_id_converter(rule):
    """Accept only UUIDs where ids are: another word is no id of the thing that lies a level above."""
    return ID_SEGMENT.sub(r"<id:\1>", rule)


def require_billing(view):
    """Lets the view run unless billing is off and the account is not unbilled."""

    @wraps(view)
    def guarded(*args, **kwargs):
        usage.ensure_billing_enabled(account())
        return view(*args, **kwargs)

    return guarded


def extra_path(path, endpoint, view, methods):
    return lambda state: state.app.add_url_rule(path, endpoint, view, methods=methods)


class User(Resource):
    """The customers' dialect: each endpoint has its own shape."""

    surface, prefix = "user", "/api"

    def scope(self, rule, method):
        """From the path, not from names in our code (specification 5.3)."""
        return permissions.scope(rule, method)


class Admin(Resource):
    """The operators' dialect: {success, message, data}, always."""

    surface, prefix = "admin", "/api/v1"
    repeatable = ("POST", "PUT", "PATCH", "DELETE")

    @staticmethod
    def _prepare_response_content(data):
        body = {"success": True, "message": None}
        if isinstance(data, dict) and "__rows__" in data:
            return {**body, "data": data["__rows__"], "meta": data["meta"]}
        return {**body, "message": g.pop("said", None), **({} if data is None else {"data": data})}

    @staticmethod
    def _make_doc_response_schema(schema):
        if schema is CSV:
            return schema
        many = schema is not None and schema.many
        return enveloped(schema if isinstance(schema, Rows) or schema is None else type(schema), many)


class Billing(Admin):
    """The billing systems' surface: the operators' dialect, tokens of its own."""

    surface, prefix = "billing", "/api/v1/billing"


DATA = about("What was asked for.")
SUCCESS = about("Always true: failures have their own shape.", True)


@cache
def wrapped(key, schema):
    """`{success, message, <key>: {…}}`."""
    named = f"{schema_name(schema)}Under{key.title().replace('_', '')}"
    return Done.from_dict({key: fields.Nested(schema, **DATA)}, name=named)()


class Done(Schema):
    """An action that was taken."""

    success = fields.Boolean(dump_default=True, **SUCCESS)
    message = fields.String(
        allow_none=True, dump_default=None, **about("What happened, in a sentence.", "The instance starts.")
    )


@cache
def result(**also):
    """`{success, message}` and, where given, further named fields, which may be missing."""
    made = Done.from_dict(also, name="Done" + "".join(name.title().replace("_", "") for name in also))
    made.sometimes = tuple(also)
    return made()


@cache
def enveloped(schema, many=False):
    """The documented form of an admin answer."""
    parts = {
        "success": fields.Boolean(**SUCCESS),
        "message": fields.String(allow_none=True, **about("What happened, in a sentence.", "The instance starts.")),
    }
    if isinstance(schema, Rows):
        parts["data"] = schema.fields["__rows__"]
        parts["meta"] = fields.Nested(Meta, **about("Where these rows lie in the whole list."))
        return Schema.from_dict(parts, name=f"{type(schema).__name__}List")()
    if schema is not None:
        parts["data"] = fields.Nested(schema, many=many, **DATA)
    kind = "Array" if many else ""
    return Schema.from_dict(parts, name=f"{schema_name(schema)}{kind}Envelope" if schema else "Envelope")()


def set_message(message):
    """The sentence of an operator's answer."""
    g.said = message


def account():
    """Whose resources the token opens."""
    return g.caller.access


def actor():
    return g.caller.actor
