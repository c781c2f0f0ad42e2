"""Any list of a page as CSV: the cells of its table as text, so that the file has what the person sees.

The file is streamed: the view of the list runs again for each of its pages, so that one page at a time is in memory.
"""

from html.parser import HTMLParser

from flask import current_app, g, make_response, request

from panel.web.csv_export import build_csv_response

SKIPPED_TAGS = ("button", "svg", "select", "script", "progress")
SKIPPED_CLASSES = {"dropdown", "visually-hidden", "checkbox-cell", "row-menu"}
VOID_TAGS = {"br", "hr", "img", "input", "path", "rect", "use", "wbr"}
"""Tags without an end. Those of icons have one only in some places."""


FIRST_FOLLOWING_PAGE = 2
MAX_CSV_PAGES = 100
"""The end of an export, at 100,000 rows: each page takes a web thread about a second."""


def build_list_csv(markup, next_page):
    """Return a download of the table in the markup of a list, and of its pages from `next_page` on. A list without rows
    has no table. While the download is running, return the markup alone, for `iter_rows`."""
    if next_page > FIRST_FOLLOWING_PAGE:
        return make_response(str(markup))
    head, rows = read_table(markup)
    name = request.endpoint.replace(".", "-").replace("_", "-")
    return build_csv_response(name, head, iter_rows(rows))


def iter_rows(rows):
    """Yield these rows and those of the following pages."""
    yield from rows
    for page in range(FIRST_FOLLOWING_PAGE, MAX_CSV_PAGES + 1):
        if not g.get("has_more_csv_rows"):
            return
        g.csv_page, g.has_more_csv_rows = page, False
        answer = current_app.view_functions[request.endpoint](**request.view_args)
        yield from read_table(answer.get_data(as_text=True))[1]


def read_table(markup):
    """Return head and rows of the table, without the column of the rows' menus."""
    reader = TableReader()
    reader.feed(str(markup))
    while reader.head and not reader.head[-1]:
        reader.head.pop()
    return reader.head, reader.rows


class TableReader(HTMLParser):
    """Collects head and rows of a table. Controls and the cells that only have controls are left out; a relative time
    is its exact one."""

    def __init__(self):
        super().__init__()
        self.head: list[str] = []
        self.rows: list[list[str]] = []
        self.tables = 0
        self.cell: list[str] | None = None
        self.is_head = False
        self.open_tags: list[tuple[str, bool]] = []
        """The tags that are open, each with whether its content is skipped."""

    def is_skipping(self):
        return any(is_skipped for _tag, is_skipped in self.open_tags)

    def handle_starttag(self, tag, attrs):
        self.tables += tag == "table"
        if self.tables != 1:
            return  # only the first table is the list
        attributes = dict(attrs)
        classes = set((attributes.get("class") or "").split())
        is_skipped = tag in SKIPPED_TAGS or bool(classes & SKIPPED_CLASSES)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and not is_skipped:
            self.cell, self.is_head = [], tag == "th"
        if tag == "time" and self.cell is not None and not self.is_skipping():
            self.cell.append(attributes.get("datetime") or "")
            is_skipped = True
        if tag not in VOID_TAGS:
            self.open_tags.append((tag, is_skipped))

    def handle_startendtag(self, tag, attrs):
        """An empty tag has no content."""

    def handle_data(self, data):
        if self.cell is not None and not self.is_skipping() and data.strip():
            self.cell.append(" ".join(data.split()))

    def handle_endtag(self, tag):
        while self.open_tags and tag in [name for name, _is_skipped in self.open_tags]:
            if self.open_tags.pop()[0] == tag:
                break
        if tag in ("td", "th") and self.cell is not None:
            (self.head if self.is_head else self.rows[-1]).append(" ".join(self.cell))
            self.cell = None
        if tag == "tr" and self.rows and not self.rows[-1]:
            self.rows.pop()
