"""Pages of lists. The chosen page size is stored in the session cookie."""

from flask import request, url_for
from flask import session as cookie
from sqlalchemy import func

from panel.core.db import session

PAGE_SIZES = (25, 50, 100)
MAX_PAGE_NUMBER = 10**6


class Page:
    """The rows of the requested page, and the total from a second query. `columns`: the query selects several columns,
    not objects."""

    def __init__(self, query, columns=False):
        self.per_page = requested_page_size()
        self.total = session.scalar(query.with_only_columns(func.count(), maintain_column_froms=True).order_by(None))
        self.last = max(1, -(-self.total // self.per_page))
        self.number = min(parse_page_number(request.args.get("page")), self.last)
        result = session.execute(query.limit(self.per_page).offset((self.number - 1) * self.per_page)).unique()
        self.rows = result.all() if columns else result.scalars().all()

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    @property
    def first(self):
        return (self.number - 1) * self.per_page + 1 if self.rows else 0

    @property
    def to(self):
        return self.first + len(self.rows) - 1 if self.rows else 0

    @property
    def near(self):
        """Return the numbers of the pages around this one."""
        return range(max(1, self.number - 2), min(self.last, self.number + 2) + 1)

    def address(self, number, per_page=None):
        """Return the URL of the same list, with its filters, at another page."""
        filters = {name: value for name, value in request.args.items() if name not in ("page", "per_page")}
        return url_for(
            request.endpoint, **(request.view_args or {}), **filters, page=number, per_page=per_page or self.per_page
        )


def parse_page_number(text):
    return (
        min(max(int(text), 1), MAX_PAGE_NUMBER) if text and text.isascii() and text.isdigit() and len(text) < 10 else 1
    )


def requested_page_size():
    requested = parse_page_number(request.args.get("per_page"))
    if requested in PAGE_SIZES:
        if cookie.get("per_page", PAGE_SIZES[0]) != requested:
            cookie["per_page"] = requested
        return requested
    stored = cookie.get("per_page")
    return stored if stored in PAGE_SIZES else PAGE_SIZES[0]
