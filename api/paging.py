"""Lists: a page at a time, in the shapes of both dialects."""

from functools import cache, wraps
from typing import NamedTuple

from flask import g
from marshmallow import Schema, fields
from sqlalchemy import bindparam, func

from panel.core.db import session
from panel.schemas.base import PageQuery, about


class Meta(Schema):
    """Where the rows of an answer lie in the whole list."""

    current_page = fields.Integer(**about("Which page this is, from 1.", 1))
    per_page = fields.Integer(**about("How many rows a page has at most.", 100))
    total = fields.Integer(**about("How many rows there are on all pages.", 2))
    last_page = fields.Integer(**about("The number of the last page.", 1))
    to = fields.Integer(allow_none=True, **about("The number of this page's last row; null when it has none.", 2))


Meta._declared_fields["from"] = fields.Integer(
    allow_none=True, **about("The number of this page's first row; null when it has none.", 1)
)
ROWS = about("The rows of this page.")


@cache
def page(schema):
    """The customers' list: rows under `data`, the paginator's figures beside them."""
    return Meta.from_dict({"data": fields.Nested(schema, many=True, **ROWS)}, name=f"{schema_name(schema)}Page")()


class Rows(Schema):
    """The operators' list, before the envelope."""


@cache
def admin_page(schema):
    """The operators' list: rows under `data`, the paginator's figures under `meta`."""
    made = Rows.from_dict(
        {"__rows__": fields.Nested(schema, many=True, **ROWS), "meta": fields.Nested(Meta)}, name=schema_name(schema)
    )
    return made()


def schema_name(schema):
    kind = schema if isinstance(schema, type) else type(schema)
    return kind.__name__.removesuffix("Out")


MAX_UNPAGED_ROWS = 65536
"""Rows of a list that is complete unless a part of it is asked for: what a subnet has at most."""


class Page(NamedTuple):
    """The part of a list that was asked for."""

    number: int
    size: int
    surface: str = "user"

    @property
    def skipped(self):
        return (self.number - 1) * self.size

    def of(self, found, total):
        """The answer with these rows of so many."""
        first = self.skipped + 1 if found else None
        meta = {
            "current_page": self.number,
            "per_page": self.size,
            "total": total,
            "last_page": max(1, -(-total // self.size)),
            "from": first,
            "to": first + len(found) - 1 if found else None,
        }
        return {**meta, "data": found} if self.surface == "user" else {"__rows__": found, "meta": meta}


def with_page(view, query, surface):
    """The view without the page in its query, which `paginate` finds, and without a query that asks for nothing
    else."""

    alone = query._declared_fields.keys() == PageQuery._declared_fields.keys()

    @wraps(view)
    def asked(sent, *args, **kwargs):
        g.page = Page(sent.pop("page"), sent.pop("per_page", MAX_UNPAGED_ROWS), surface)
        return view(*args, **kwargs) if alone else view(sent, *args, **kwargs)

    return asked


def paginate(query, page=None):
    """The page that was asked for of a select, with its figures: one question to the database, but for a page beyond
    the end. PostgreSQL sees the number of rows itself: for one that it cannot see it would plan each question anew."""
    page = page or g.page
    count = query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
    asked = query.add_columns(count.scalar_subquery().label("total"))
    asked = asked.limit(bindparam("per_page", page.size, literal_execute=True))
    if page.skipped:
        asked = asked.offset(page.skipped)
    found = session.execute(asked).all()
    total = found[0].total if found else 0 if page.number == 1 else session.scalar(count)
    if found and len(found[0]) == 2:
        found = [row[0] for row in found]
    return page.of(found, total)


def paginate_list(rows):
    """The same of rows that are at hand."""
    return g.page.of(rows[g.page.skipped :][: g.page.size], len(rows))
