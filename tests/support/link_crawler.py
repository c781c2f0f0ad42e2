"""Crawl the pages by their links."""

import re
from urllib.parse import urljoin, urlsplit

from lxml import html

MAX_PAGES = 250


def crawl_pages(browser, *starts):
    """Yield (path, response) of all pages that links reach, one for each route."""
    visited, pending = set(), list(starts or ["/"])
    while pending and len(visited) < MAX_PAGES:
        path = pending.pop(0)
        if normalize_path(path) in visited:
            continue
        visited.add(normalize_path(path))
        answer = browser.get(path, buffered=True)
        yield path, answer
        if answer.mimetype == "text/html" and answer.data.strip():
            links = (
                urljoin(path, link.get("href")) for link in html.fromstring(answer.data).iter("a") if link.get("href")
            )
            pending += [link for link in links if is_own_link(link) and "/static/" not in link]


def is_own_link(link):
    parts = urlsplit(link)
    return not parts.scheme and not parts.netloc


def normalize_path(path):
    """Return the path with `id` in place of ids, and one path for all families of an API reference."""
    path = re.sub(r"^(/api/docs/\w+|/user/api/documentation)/\w+$", r"\1/family", urlsplit(path).path)
    return "/".join("id" if len(part) == 36 else part for part in path.split("/"))


def find_forms(path, answer):
    """Yield (method, URL, values, field names) of each form of a page."""
    for form in html.fromstring(answer.data).forms:
        url = urljoin(path, form.get("hx-post") or form.get("action") or path)
        yield (
            (form.get("method") or "get").upper(),
            url,
            {name: value or "" for name, value in form.form_values()},
            list_field_names(form),
        )


def list_field_names(form):
    return sorted({field.name for field in form.inputs if field.name})
