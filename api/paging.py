"""Paging of lists, in the response shapes of both dialects."""

from functools import cache, wraps
from typing import ClassVar, NamedTuple

from flask import g
from marshmallow import Schema, fields

from panel.schemas.base import PageQuery, describe
from panel.web.paging import Page


class Meta(Schema):
    """The position of a page in the whole list."""

    current_page = fields.Integer(**describe("Page number, starting at 1.", 1))
    per_page = fields.Integer(**describe("Maximum number of rows per page.", 100))
    total = fields.Integer(**describe("Total number of rows.", 2))
    last_page = fields.Integer(**describe("Number of the last page.", 1))
    to = fields.Integer(
        allow_none=True, **describe("Number of the last row on this page; null if the page is empty.", 2)
    )

    class Meta:
        include: ClassVar = {
            "from": fields.Integer(
                allow_none=True, **describe("Number of the first row on this page; null if the page is empty.", 1)
            )
        }


ROWS_DESCRIPTION = describe("The rows of this page.")


@cache
def build_page_schema(schema):
    """Return the schema of a customers' list: rows in `data`, the fields of Meta beside it."""
    return Meta.from_dict(
        {"data": fields.Nested(schema, many=True, **ROWS_DESCRIPTION)}, name=f"{get_schema_name(schema)}Page"
    )()


class Rows(Schema):
    """The base of operators' lists. The envelope renames `__rows__` to `data`."""


@cache
def build_admin_page_schema(schema):
    """Return the schema of an operators' list: rows in `data`, the fields of Meta in `meta`."""
    rows_schema = Rows.from_dict(
        {"__rows__": fields.Nested(schema, many=True, **ROWS_DESCRIPTION), "meta": fields.Nested(Meta)},
        name=get_schema_name(schema),
    )
    return rows_schema()


def get_schema_name(schema):
    kind = schema if isinstance(schema, type) else type(schema)
    return kind.__name__.removesuffix("Out")


MAX_UNPAGED_ROWS = 65536
"""Maximum of rows when a list is requested without `per_page`: the addresses of the largest subnet."""


class RequestedPage(NamedTuple):
    """Which part of a list is requested: page number from 1, rows per page, surface."""

    number: int
    size: int
    surface: str = "user"


def render_page(page, surface):
    """Return the response body with the rows of the page."""
    meta = {
        "current_page": page.number,
        "per_page": page.per_page,
        "total": page.total,
        "last_page": page.last,
        "from": page.first or None,
        "to": page.to or None,
    }
    return {**meta, "data": page.rows} if surface == "user" else {"__rows__": page.rows, "meta": meta}


def with_page(view, query, surface):
    """Return the view with page and size taken out of its query into `g.page`, where `paginate` reads them. The view
    gets no query argument when the schema has no other fields."""
    only_paging = query().fields.keys() == PageQuery().fields.keys()

    @wraps(view)
    def paged(query_values, *args, **kwargs):
        g.page = RequestedPage(query_values.pop("page"), query_values.pop("per_page", MAX_UNPAGED_ROWS), surface)
        return view(*args, **kwargs) if only_paging else view(query_values, *args, **kwargs)

    return paged


def paginate(query, requested=None):
    """Return the requested page of a select as a response body."""
    requested = requested or g.page
    return render_page(Page(query, requested.number, requested.size), requested.surface)


def paginate_list(rows):
    """Return the requested page of a list of rows as a response body."""
    return render_page(Page.from_list(rows, g.page.number, g.page.size), g.page.surface)
