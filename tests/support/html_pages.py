"""Addresses and contents of HTML pages."""

import re
from html.parser import HTMLParser

from tests.support.cast import UNKNOWN_ID
from tests.support.link_crawler import is_own_link

PARTIAL_HEADERS = {"HX-Request": "true", "HX-Request-Type": "partial"}


def find_page_addresses(app, method, prefix="/"):
    """Yield (address, permission) of every page that accepts the method."""
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if hasattr(view, "permission") and method in rule.methods and rule.rule.startswith(prefix):
            path = re.sub(r"<any\((\w+)[^)]*\):\w+>", r"\1", rule.rule)
            yield re.sub(r"<(\w+:)?\w+>", UNKNOWN_ID, path), view.permission


class HtmlOutline(HTMLParser):
    """Parser that checks that elements are closed in order, and collects all ids."""

    VOID = {"meta", "link", "input", "br", "hr", "img"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()


def find_enabled_form_actions(tree):
    """Yield the actions of forms with an enabled button, or that submit on change."""
    for form in tree.iter("form"):
        buttons = form.xpath(".//button[not(@type='button')]")
        able = all(button.get("disabled") is None for button in buttons) if buttons else form.get("hx-trigger")
        able = able and not form.xpath(".//button[@aria-disabled='true']")
        action = form.get("hx-post") or form.get("action")  # without JavaScript the latter may ask for a confirmation
        if (form.get("method") or "").lower() == "post" and able and is_own_link(action):
            yield action


def find_attention_items(text):
    return re.search(r'aria-label="Needs attention".*?</section>', text, re.DOTALL)[0]
