"""Pages of lists: `ui.pagination` shows their position to people, `api.paging` to programs."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from flask import g, request, url_for
from flask import session as cookie
from sqlalchemy import func
from sqlalchemy.orm import InstrumentedAttribute

from panel.core.db import literal_limit, session
from panel.web import large_totals

PAGE_SIZES = (25, 50, 100)
MAX_PAGE_NUMBER = 10**6
CSV_ROWS_PER_PAGE = 1000
"""A CSV export reads the list in pages of this size, so that it needs little memory."""
ORDER_PARAMETER = "sort_by"


class Page:
    """One page of a list: the rows of a select, and the total of all pages. The rows of one entity are its objects.

    Selects of columns may have the execution option `has_plain_rows`: their rows are not passed through the ORM.

    Without a number, the page that a request for an HTML page asks for, or the last one when there are fewer. For a
    CSV export it is the page `g.csv_page` of large pages, and `g.has_more_csv_rows` tells whether others follow.

    `orders` are the columns by which people may sort, by their names in the address. Each needs an index.

    With `all_rows`, a select of the same entity without conditions, a searched list or a later page is found by its ids
    first: conditions are evaluated once for rows and total, and skipped rows are not loaded.
    """

    orders: Mapping[str, InstrumentedAttribute[Any]] = {}
    order, is_descending = "", False

    def __init__(self, query, number=None, per_page=None, orders=None, all_rows=None, is_searched=False):
        is_export = number is None and is_csv_requested()
        if is_export:
            number, per_page = g.get("csv_page", 1), CSV_ROWS_PER_PAGE
        self.number = number or parse_page_number(request.args.get("page"))
        self.per_page = per_page or parse_requested_page_size()
        if orders:
            query = self._sort(query, orders, request.args.get(ORDER_PARAMETER, ""))
        by_ids = all_rows is not None and (is_searched or self.number > 1)
        load = partial(self._load_by_ids, all_rows) if by_ids else self._load
        self.rows, self.total = load(query)
        if number is None and self.number > self.last:
            self.number = self.last
            self.rows, self.total = load(query)
        if is_export:
            g.has_more_csv_rows = self.number < self.last

    def _sort(self, query, orders, requested):
        """Return the query in the requested order, if it is one of `orders`. A minus before the name reverses it."""
        self.orders = orders
        name = requested.removeprefix("-")
        if name not in orders:
            return query
        self.order, self.is_descending = name, requested.startswith("-")
        columns = dict.fromkeys((orders[name], orders[name].class_.id))
        return query.order_by(None).order_by(*(c.desc() if self.is_descending else c.asc() for c in columns))

    def _load(self, query, total_column=None):
        """Return rows and total. One query, two for a page beyond the end."""
        count = query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None)
        total = large_totals.find(count)
        if total_column is None:
            total_column = count.scalar_subquery()
        statement = query if total else query.add_columns(total_column.label("total"))
        statement = statement.limit(literal_limit(self.per_page))
        skipped = (self.number - 1) * self.per_page
        if skipped:
            statement = statement.offset(skipped)
        has_plain_rows = statement.get_execution_options().get("has_plain_rows")
        rows = (session.connection() if has_plain_rows else session).execute(statement).all()
        is_single = bool(rows) and len(rows[0]) == (1 if total else 2)
        if not rows:
            total = session.scalar(count) if skipped else 0
        elif not total:
            total = rows[0].total
            large_totals.store(count, total)
        elif len(rows) < self.per_page:
            total = skipped + len(rows)
        return [row[0] for row in rows] if is_single else rows, total

    def _load_by_ids(self, all_rows, query):
        """Return rows and total. Two queries, three for a page beyond the end."""
        id_column = all_rows.column_descriptions[0]["entity"].id
        ids, total = self._load(query.with_only_columns(id_column), total_column=func.count().over())
        rows = {row.id: row for row in session.scalars(all_rows.where(id_column.in_(ids))).unique()} if ids else {}
        return [rows[row_id] for row_id in ids if row_id in rows], total

    @classmethod
    def from_list(cls, rows, number, per_page):
        """Return a page of rows that are in memory."""
        page = cls.__new__(cls)
        first = (number - 1) * per_page
        page.number, page.per_page, page.rows, page.total = number, per_page, rows[first:][:per_page], len(rows)
        return page

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    @property
    def first(self):
        """The number of the first row, 0 when there is none."""
        return (self.number - 1) * self.per_page + 1 if self.rows else 0

    @property
    def to(self):
        """The number of the last row, 0 when there is none."""
        return self.first + len(self.rows) - 1 if self.rows else 0

    @property
    def last(self):
        """The number of the last page."""
        return max(1, -(-self.total // self.per_page))

    @property
    def near(self):
        """Return the numbers of the pages around this one."""
        return range(max(1, self.number - 2), min(self.last, self.number + 2) + 1)

    def build_url(self, number, per_page=None):
        """Return the URL of the same list, with its filters, at another page."""
        filters = {name: value for name, value in request.args.items() if name not in ("page", "per_page")}
        return url_for(
            request.endpoint, **(request.view_args or {}), **filters, page=number, per_page=per_page or self.per_page
        )

    def build_order_url(self, order):
        """Return the URL of the first page of the same list, with its filters, sorted by this column. A second click
        reverses the order."""
        filters = {name: value for name, value in request.args.items() if name not in ("page", ORDER_PARAMETER)}
        is_reversed = order == self.order and not self.is_descending
        filters[ORDER_PARAMETER] = f"-{order}" if is_reversed else order
        return url_for(request.endpoint, **(request.view_args or {}), **filters)


def is_csv_requested():
    return request.args.get("format") == "csv"


def parse_page_number(text):
    return (
        min(max(int(text), 1), MAX_PAGE_NUMBER) if text and text.isascii() and text.isdigit() and len(text) < 10 else 1
    )


def parse_requested_page_size():
    """Return the page size that the request or, if it has none, the session cookie asks for; store a new choice."""
    requested = parse_page_number(request.args.get("per_page"))
    if requested in PAGE_SIZES:
        if cookie.get("per_page", PAGE_SIZES[0]) != requested:
            cookie["per_page"] = requested
        return requested
    stored = cookie.get("per_page")
    return stored if stored in PAGE_SIZES else PAGE_SIZES[0]
