"""Paging of lists, in the response shapes of both dialects."""

from functools import cache, wraps
from typing import NamedTuple

from flask import g
from marshmallow import Schema, fields
from sqlalchemy import bindparam, func

from panel.core.db import session
from panel.schemas.base import PageQuery, about


class Meta(Schema):
    """The position of a page in the whole list."""

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
    """Return the schema of a customers' list: rows in `data`, the fields of Meta beside it."""
    return Meta.from_dict({"data": fields.Nested(schema, many=True, **ROWS)}, name=f"{schema_name(schema)}Page")()


class Rows(Schema):
    """The base of operators' lists. The envelope renames `__rows__` to `data`."""


@cache
def admin_page(schema):
    """Return the schema of an operators' list: rows in `data`, the fields of Meta in `meta`."""
    rows_schema = Rows.from_dict(
        {"__rows__": fields.Nested(schema, many=True, **ROWS), "meta": fields.Nested(Meta)}, name=schema_name(schema)
    )
    return rows_schema()


def schema_name(schema):
    kind = schema if isinstance(schema, type) else type(schema)
    return kind.__name__.removesuffix("Out")


MAX_UNPAGED_ROWS = 65536
"""Maximum of rows when a list is requested without `per_page`: the addresses of the largest subnet."""


class Page(NamedTuple):
    """The requested part of a list: page number from 1, rows per page, surface."""

    number: int
    size: int
    surface: str = "user"

    @property
    def skipped(self):
        return (self.number - 1) * self.size

    def of(self, rows, total):
        """Return the response body with these rows. `total` counts the rows of all pages."""
        first = self.skipped + 1 if rows else None
        meta = {
            "current_page": self.number,
            "per_page": self.size,
            "total": total,
            "last_page": max(1, -(-total // self.size)),
            "from": first,
            "to": first + len(rows) - 1 if rows else None,
        }
        return {**meta, "data": rows} if self.surface == "user" else {"__rows__": rows, "meta": meta}


def with_page(view, query, surface):
    """Return the view with page and size taken out of its query into `g.page`, where `paginate` reads them. The view
    gets no query argument when the schema has no other fields."""
    only_paging = query._declared_fields.keys() == PageQuery._declared_fields.keys()

    @wraps(view)
    def paged(query_values, *args, **kwargs):
        g.page = Page(query_values.pop("page"), query_values.pop("per_page", MAX_UNPAGED_ROWS), surface)
        return view(*args, **kwargs) if only_paging else view(query_values, *args, **kwargs)

    return paged


def paginate(query, page=None):
    """Return the requested page of a select as a response body. One query, two for a page beyond the end.

    The limit is a literal, because PostgreSQL plans each query anew when the limit is a bound parameter."""
    page = page or g.page
    count = query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
    statement = query.add_columns(count.scalar_subquery().label("total"))
    statement = statement.limit(bindparam("per_page", page.size, literal_execute=True))
    if page.skipped:
        statement = statement.offset(page.skipped)
    rows = session.execute(statement).all()
    total = rows[0].total if rows else 0 if page.number == 1 else session.scalar(count)
    if rows and len(rows[0]) == 2:
        rows = [row[0] for row in rows]
    return page.of(rows, total)


def paginate_list(rows):
    """Return the requested page of a list of rows as a response body."""
    return g.page.of(rows[g.page.skipped :][: g.page.size], len(rows))
