"""Any list of a page as CSV: the cells of its table as text, so that the file has what the person sees. The small line
below a name is a column of its own.

The file is streamed: the view of the list runs again for each of its pages, so that one page at a time is in memory.
"""

from html.parser import HTMLParser

from flask import current_app, g, make_response, request

from panel.web.csv_export import build_csv_response
from panel.web.translation import gettext as _

SKIPPED_TAGS = ("button", "svg", "select", "script", "progress")
SKIPPED_CLASSES = {"dropdown", "visually-hidden", "checkbox-cell", "row-menu"}
PART_TAGS, PART_CLASSES = ("div", "p", "li", "br"), {"badge"}
"""What is on a line or in a box of its own is a part of the cell."""
PART_SEPARATOR = "; "
DETAIL_CLASS = "small"
VOID_TAGS = {"br", "hr", "img", "input", "path", "rect", "use", "wbr"}
"""Tags without an end. Those of icons have one only in some places."""


FIRST_FOLLOWING_PAGE = 2
MAX_CSV_PAGES = 100
"""The end of an export, at 100,000 rows: each page takes a web thread about a second."""


def build_list_csv(markup, next_page):
    """Return a download of the table in the markup of a list, and of its pages from `next_page` on. While the download
    is running, return the markup alone, for `iter_rows`."""
    if next_page > FIRST_FOLLOWING_PAGE:
        return make_response(str(markup))
    head, rows = read_table(markup)
    detailed = {column for row in rows for column, (_text, detail) in enumerate(row) if detail}
    names = [name for column, label in enumerate(head) for name in name_columns(label, column in detailed)]
    return build_csv_response(build_file_name(request.endpoint), names, iter_lines(rows, detailed))


def build_file_name(endpoint):
    """Return the name of the list: `ssh-keys` for `ssh_keys.index`."""
    return endpoint.removeprefix("admin_").removesuffix(".index").replace(".", "-").replace("_", "-")


def name_columns(label, has_details):
    """Return the names of the file's columns for a column of the table."""
    return [label, _("%(column)s: details", column=label)] if has_details else [label]


def iter_lines(rows, detailed):
    """Yield the lines of the file. Only the columns `detailed`, which the first page decides, have two cells."""
    for row in iter_rows(rows):
        cells = [cell if column in detailed else [join_parts(cell)] for column, cell in enumerate(row)]
        yield [text for cell in cells for text in cell]


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


def join_parts(parts):
    return PART_SEPARATOR.join(part for part in parts if part)


class Cell:
    """The parts of a cell, each with whether it is small and so a detail."""

    def __init__(self):
        self.parts: list[tuple[str, bool]] = []
        self.is_part_ended = False

    def end_part(self):
        self.is_part_ended = True

    def add(self, text, *, is_detail):
        if self.parts and not self.is_part_ended and self.parts[-1][1] is is_detail:
            text = f"{self.parts.pop()[0]} {text}"
        self.parts.append((text, is_detail))
        self.is_part_ended = False

    def split(self):
        """Return text and details. Details without other text are the text."""
        text = join_parts(text for text, is_detail in self.parts if not is_detail)
        details = join_parts(text for text, is_detail in self.parts if is_detail)
        return (text, details) if text else (details, "")


class TableReader(HTMLParser):
    """Collects head and rows of a table. Controls and the cells that only have controls are left out; a relative time
    is its exact one."""

    def __init__(self):
        super().__init__()
        self.head: list[str] = []
        self.rows: list[list[tuple[str, str]]] = []
        self.tables = 0
        self.cell: Cell | None = None
        self.is_head = False
        self.open_tags: list[tuple[str, bool, bool]] = []
        """The tags that are open, each with whether its content is skipped, and whether it is a detail."""

    def is_skipping(self):
        return any(is_skipped for _tag, is_skipped, _is_detail in self.open_tags)

    def add_text(self, text):
        self.cell.add(text, is_detail=any(is_detail for _tag, _is_skipped, is_detail in self.open_tags))

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
            self.cell, self.is_head = Cell(), tag == "th"
        if self.cell is not None and (tag in PART_TAGS or classes & PART_CLASSES):
            self.cell.end_part()
        if tag == "time" and self.cell is not None and not self.is_skipping():
            self.add_text(attributes.get("datetime") or "")
            is_skipped = True
        if tag not in VOID_TAGS:
            self.open_tags.append((tag, is_skipped, DETAIL_CLASS in classes))

    def handle_startendtag(self, tag, attrs):
        """An empty tag has no content."""

    def handle_data(self, data):
        if self.cell is not None and not self.is_skipping() and data.strip():
            self.add_text(" ".join(data.split()))

    def handle_endtag(self, tag):
        while self.open_tags and tag in [name for name, *_flags in self.open_tags]:
            if self.open_tags.pop()[0] == tag:
                break
        if self.cell is not None and tag in PART_TAGS:
            self.cell.end_part()
        if tag in ("td", "th") and self.cell is not None:
            text, details = self.cell.split()
            if self.is_head:
                self.head.append(text)
            else:
                self.rows[-1].append((text, details))
            self.cell = None
        if tag == "tr" and self.rows and not self.rows[-1]:
            self.rows.pop()
