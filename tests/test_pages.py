"""What holds for every page: who gets in, what is refused, what the browser is told."""

import pkgutil
import re
from html.parser import HTMLParser
from importlib import import_module

import pytest

from panel.app import PAGES
from panel.auth import permissions
from panel.core import clock
from panel.core.db import session
from panel.pages import admin, customer
from panel.services import settings

UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"
PART = {"HX-Request": "true", "HX-Request-Type": "partial"}


def pages(app, method, prefix="/"):
    """The addresses of every page that takes the method."""
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if hasattr(view, "permission") and method in rule.methods and rule.rule.startswith(prefix):
            chosen = re.sub(r"<any\((\w+)[^)]*\):\w+>", r"\1", rule.rule)
            yield re.sub(r"<(\w+:)?\w+>", UNKNOWN, chosen), view.permission


def test_every_page_names_a_permission(app):
    elsewhere = ("/api", "/version", "/instance/", "/connect", "/healthz", "/readyz")
    for rule in app.url_map.iter_rules():
        if not rule.rule.startswith(elsewhere):
            assert app.view_functions[rule.endpoint].permission in permissions.EVERY, rule.rule


def test_every_module_with_pages_is_registered():
    for package in (customer, admin):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = import_module(found.name)
            assert not hasattr(module, "bp") or module in PAGES, found.name


def test_nobody_is_sent_to_sign_in(app, browse):
    asked = 0
    for method in ("GET", "POST"):
        for address, permission in pages(app, method):
            if permission != permissions.PUBLIC:
                answer = browse().open(address, method=method)
                assert answer.status_code == 303, address
                assert answer.headers["Location"].startswith("/sign-in"), address
                asked += 1
    assert asked > 20


def test_after_signing_in_people_are_where_they_wanted_to_be(browse):
    assert browse().get("/instances?state=running").headers["Location"] == "/sign-in?next=/instances?state%3Drunning"
    page = {**PART, "HX-Current-URL": "http://localhost/instances?search=a"}
    assert browse().get("/instances", headers=page).headers["HX-Redirect"] == "/sign-in?next=/instances?search%3Da"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {},
    ],
)
def test_other_sites_cannot_act(app, browse, headers):
    browser = browse("owner")
    del browser.environ_base["HTTP_SEC_FETCH_SITE"]
    for address, _ in pages(app, "POST"):
        answer = browser.post(address, headers=headers)
        assert answer.status_code == 400, address
        assert "not sent from a page of this panel" in answer.text


def test_a_browser_that_only_names_the_origin_can_act(browse, cast):
    browser = browse("owner")
    del browser.environ_base["HTTP_SEC_FETCH_SITE"]
    answer = browser.post("/profile", data={"timezone": "Asia/Tokyo"}, headers={"Origin": "http://localhost"})
    assert answer.status_code == 303
    assert cast.owner.timezone == "Asia/Tokyo"


def test_a_suspended_account_can_look_and_not_act(app, browse, cast):
    cast.owner.suspended_at = clock.now()
    session.commit()
    browser = browse("owner")
    assert "Your account is suspended" in browser.get("/").text
    for address, permission in pages(app, "POST"):
        if permission.endswith(":write") and not permission.startswith("admin:"):
            answer = browser.post(address)
            assert answer.status_code == 403, address
            assert permission in answer.text


def test_a_suspended_operator_sees_nothing_of_the_platform(app, browse, cast):
    """Whoever may not act for the platform any more has no business with its customers either."""
    cast.admin.suspended_at = clock.now()
    session.commit()
    browser = browse("admin")
    assert browser.get("/").status_code == 200
    for address, permission in pages(app, "GET"):
        if permission.startswith("admin:"):
            answer = browser.get(address)
            assert (answer.status_code, "account is suspended" in answer.text) == (403, True), address


def test_operations_are_closed_to_customers(app, browse):
    browser = browse("owner")
    for method in ("GET", "POST"):
        for address, permission in pages(app, method):
            if permission.startswith("admin:"):
                answer = browser.open(address, method=method)
                assert answer.status_code == 403, address
                assert permission in answer.text


def test_pages_are_sealed(browse):
    answer = browse("owner").get("/")
    policy = answer.headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-([^']+)'", policy)[1]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "Strict-Transport-Security" not in answer.headers
    scripts = re.findall(r"<script[^>]*>", answer.text)
    assert scripts
    assert all(f'nonce="{nonce}"' in script and "src=" in script for script in scripts)
    assert not re.search(r'\son\w+="|\sstyle="|javascript:', answer.text)
    assert nonce not in browse("owner").get("/").text


def test_assets_are_kept_for_ever_and_nothing_else_is_served(browse):
    address = re.search(r'href="(/static/[^"]+/app\.css)"', browse().get("/sign-in").text)[1]
    answer = browse().get(address)
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.mimetype == "text/css"
    assert browse().get("/static/000000000000/app.css").headers["Cache-Control"] == "no-cache"
    packed = browse().get("/static/0/vendor/tabler.min.css", headers={"Accept-Encoding": "br"})
    assert packed.headers["Content-Encoding"] == "br"
    for name in ("package.json", "node_modules/htmx.org/package.json", "vendor/../package.json", "nothing.css"):
        assert browse().get(f"/static/0/{name}").status_code == 404


def test_a_page_that_is_not_there_offers_search_and_the_way_back(browse):
    answer = browse("owner").get("/nothing")
    assert answer.status_code == 404
    assert 'action="/search"' in answer.text
    assert "Back to the overview" in answer.text
    assert browse().get("/nothing").status_code == 404


def test_a_crash_names_the_request(app, browse, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError("the database's secret")

    monkeypatch.setattr("panel.pages.customer.overview.latest", crash)
    answer = browse("owner").get("/")
    assert answer.status_code == 500
    assert answer.headers["X-Request-Id"] in answer.text
    assert "secret" not in answer.text


def test_a_failure_of_a_part_is_a_message_beside_the_page(browse):
    answer = browse("owner").get(f"/instances/{UNKNOWN}", headers=PART)
    assert answer.status_code == 404
    assert answer.headers["HX-Reswap"] == "none"
    assert answer.text.startswith('<hx-partial hx-target="#toasts"')
    assert "No such instance." in answer.text


@pytest.mark.parametrize("address", ["/", "/instances", "/tasks", "/activity", "/ssh-keys", "/profile"])
def test_a_part_is_a_block_of_the_page(browse, address):
    whole, part = browse("owner").get(address), browse("owner").get(address, headers=PART)
    assert whole.text.startswith("<!doctype html>")
    assert "<html" not in part.text
    assert "HX-Request-Type" in part.headers["Vary"]


class Outline(HTMLParser):
    """Whether every element is closed where it must be, and every id is there once."""

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


MINE = [
    "/",
    "/instances",
    "/instances/new",
    "/tasks",
    "/activity",
    "/ssh-keys",
    "/ssh-keys/new",
    "/profile",
    "/profile/security",
    "/search?q=x",
]


@pytest.mark.parametrize("address", MINE)
def test_pages_are_well_formed(browse, cast, address):
    for who in ("owner", "outsider"):
        if who == "owner":
            cast.instance(display_name="<b>&'\"")
        answer = browse(who).get(address)
        assert answer.status_code == 200
        outline = Outline(answer.text)
        assert outline.open == []
        assert len(outline.ids) == len(set(outline.ids))
        assert "<b>&" not in answer.text


def test_search_finds_own_things_only(browse, cast):
    made = cast.instance(display_name="Shop front")
    assert made.id in browse("owner").get("/search?q=shop").text
    assert made.id not in browse("outsider").get("/search?q=shop").text
    assert "/profile" in browse("owner").get("/search?q=prof", headers=PART).text
    assert "Nothing found" in browse("owner").get("/search?q=zzzz").text


LISTS = {
    "/instances": "instances.create",
    "/volumes": "volumes.manage",
    "/isos": "isos.manage",
    "/security-groups": "security_groups.manage",
    "/ip-sets": "ip_sets.manage",
    "/ssh-keys": "ssh_keys.manage",
    "/user-scripts": "user_scripts.manage",
    "/webhooks": "webhooks.manage",
    "/projects": "projects.manage",
}


@pytest.mark.parametrize("address", LISTS)
def test_who_may_only_look_sees_in_an_empty_list_what_is_needed_to_add(browse, address):
    """In the page and in the part: as the first thing, and again where the list would be."""
    settings.update({"billing_enabled": True})  # volumes are offered
    whole, part = browse("viewer").get(address).text, browse("viewer").get(address, headers=PART).text
    for text, times in ((whole, 2), (part, 1)):
        disabled = re.findall(r'<span title="([^"]+)"><button class="btn btn-primary" type="button" disabled>', text)
        assert len(disabled) == times
        assert all(LISTS[address] in why for why in disabled), disabled
        assert f'class="btn btn-primary" href="{address}/new' not in text
