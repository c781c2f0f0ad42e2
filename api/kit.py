"""What every API module is written with: the route row, the shapes of answers, paging.

One row says what an operation takes, gives and requires:

    @user.get("/ssh-keys", op="list", can="ssh_keys:read", query=PageQuery, out=page(SshKeyOut))

`can` has no default: an operation without a permission does not start. The two dialects are two classes; nothing else
knows about the admin envelope (specification 4.1).
"""

from functools import cache

import flask_smorest
from flask import g
from marshmallow import Schema, fields
from sqlalchemy import func
from webargs.flaskparser import FlaskParser

from panel.auth import can as guard
from panel.db import session
from panel.errors import Invalid, Problem
from panel.schemas.base import PageQuery

__all__ = ["Admin", "PageQuery", "User", "account", "actor", "page", "paginate", "say"]


class Parser(FlaskParser):
    """Reads bodies as clients send them: any content type, nothing at all or `null` for an empty object."""

    DEFAULT_UNKNOWN_BY_LOCATION = {"json": None, "query": "exclude"}

    def load_json(self, req, schema):
        return json_object(req)

    def handle_error(self, error, req, schema, *, error_status_code, error_headers):
        errors = dict(flattened(error.messages[next(iter(error.messages))]))
        field, texts = next(iter(errors.items()))
        problem = Invalid(f"{field}: {texts[0]}")
        problem.fields = errors  # not as keywords: a client may send a field called `status` or `reason`
        raise problem


def json_object(req):
    if not req.data.strip():
        return {}
    body = req.get_json(force=True, silent=True) if req.data.strip() != b"null" else {}
    if not isinstance(body, dict):
        raise Problem("The body must be a JSON object.", status=400)
    return body


def flattened(messages, path=""):
    """Nested error messages as pairs of a dotted field name and its list of messages."""
    for field, found in messages.items():
        name = f"{path}.{field}" if path else str(field)
        if isinstance(found, dict):
            yield from flattened(found, name)
        else:
            yield name, [str(text) for text in found]


class Resource(flask_smorest.Blueprint):
    """A blueprint whose routes say in one place what they take, give and require."""

    ARGUMENTS_PARSER = Parser()
    surface = prefix = ""

    def __init__(self, name, module, **options):
        self.resource = name
        super().__init__(f"{self.surface}_{name}", module, url_prefix=self.prefix, **options)

    def route(self, rule, *, op, can, query=None, body=None, out=None, status=200, also=(), **options):
        """Registers an operation. `also` lists further paths that are served the same but not documented."""

        def register(view):
            served = self.response(status, out)(view)
            if body:
                served = self.arguments(body())(served)
            if query:
                served = self.arguments(query(), location="query")(served)
            served = self.doc(operationId=f"{self.surface}.{self.resource}.{op}", **{"x-permission": can})(served)
            served = guard(can)(served)
            endpoint = f"{op}".replace(".", "_")
            super(Resource, self).route(rule, tags=[self.resource], endpoint=endpoint, **options)(served)
            for number, path in enumerate(also):
                self.record(alias(path, f"{self.name}_{endpoint}_{number}", served, options))
            return view

        return register


def alias(path, endpoint, view, options):
    return lambda state: state.app.add_url_rule(path, endpoint, view, **options)


class User(Resource):
    """The customers' dialect: each endpoint has its own shape."""

    surface, prefix = "user", "/api"


class Admin(Resource):
    """The operators' dialect: {success, message, data}, always."""

    surface, prefix = "admin", "/api/v1"

    @staticmethod
    def _prepare_response_content(data):
        body = {"success": True, "message": None}
        if isinstance(data, dict) and "__rows__" in data:
            return {**body, "data": data["__rows__"], "meta": data["meta"]}
        return {**body, "message": g.pop("said", None), **({} if data is None else {"data": data})}

    @staticmethod
    def _make_doc_response_schema(schema):
        return enveloped(schema if isinstance(schema, Rows) or schema is None else type(schema))


class Meta(Schema):
    """Where the rows of an answer lie in the whole list."""

    current_page = fields.Integer(metadata={"example": 1})
    per_page = fields.Integer(metadata={"example": 100})
    total = fields.Integer(metadata={"example": 2})
    last_page = fields.Integer(metadata={"example": 1})
    to = fields.Integer(allow_none=True, metadata={"example": 2})


Meta._declared_fields["from"] = fields.Integer(allow_none=True, metadata={"example": 1})


@cache
def page(schema):
    """The customers' list: rows under `data`, the paginator's figures beside them."""
    return Meta.from_dict({"data": fields.Nested(schema, many=True)}, name=f"{plain(schema)}Page")()


class Rows(Schema):
    """The operators' list, before the envelope."""


@cache
def rows(schema):
    """The operators' list: rows under `data`, the paginator's figures under `meta`."""
    made = Rows.from_dict(
        {"__rows__": fields.Nested(schema, many=True), "meta": fields.Nested(Meta)}, name=plain(schema)
    )
    return made()


@cache
def keyed(key, schema):
    """`{success, message, <key>: {…}}`."""
    named = f"{plain(schema)}Under{key.title().replace('_', '')}"
    return Done.from_dict({key: fields.Nested(schema)}, name=named)()


class Done(Schema):
    """An action that was taken."""

    success = fields.Boolean(dump_default=True, metadata={"description": "Always true: failures have their own shape."})
    message = fields.String(
        metadata={"description": "What happened, in a sentence.", "example": "The instance starts."}
    )


@cache
def done(**also):
    """`{success, message}` and, where given, further named fields."""
    return Done.from_dict(also, name="Done" + "".join(name.title().replace("_", "") for name in also))()


@cache
def enveloped(schema):
    """The documented form of an admin answer."""
    parts = {
        "success": fields.Boolean(metadata={"description": "Always true: failures have their own shape."}),
        "message": fields.String(allow_none=True, metadata={"description": "What happened, in a sentence."}),
    }
    if isinstance(schema, Rows):
        parts["data"] = schema.fields["__rows__"]
        parts["meta"] = fields.Nested(Meta)
        return Schema.from_dict(parts, name=f"{type(schema).__name__}List")()
    if schema is not None:
        parts["data"] = fields.Nested(schema)
    return Schema.from_dict(parts, name=f"{plain(schema)}Envelope" if schema else "Envelope")()


def plain(schema):
    kind = schema if isinstance(schema, type) else type(schema)
    return kind.__name__.removesuffix("Out")


def paginate(query, page, per_page, dialect="user"):
    """One page of a select, with its figures: one question to the database, but for a page beyond the end."""
    count = query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
    asked = query.add_columns(count.scalar_subquery().label("total"))
    found = session.execute(asked.limit(per_page).offset((page - 1) * per_page)).all()
    total = found[0].total if found else 0 if page == 1 else session.scalar(count)
    if found and len(found[0]) == 2:
        found = [row[0] for row in found]
    first = (page - 1) * per_page + 1 if found else None
    meta = {
        "current_page": page,
        "per_page": per_page,
        "total": total,
        "last_page": max(1, -(-total // per_page)),
        "from": first,
        "to": first + len(found) - 1 if found else None,
    }
    return {"__rows__": found, "meta": meta} if dialect == "admin" else {**meta, "data": found}


def say(message):
    """The sentence of an operator's answer."""
    g.said = message


def account():
    """The customer whose token this is."""
    return g.caller.account


def actor():
    return g.caller.actor
