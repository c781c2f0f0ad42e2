"""Malformed requests to pages are answered without a 5xx status."""

import pytest

from panel.core.db import session
from panel.services import security_groups
from tests.support import link_crawler, malformed_input
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS, find_page_addresses

pytestmark = pytest.mark.slow_proof("malformed-input")

MALFORMED_VALUES = ["", "\0", "\n", "\u202e\uffff", "🦊" * 300, "x" * 100_000, "9" * 400, "-1", "1e999", UNKNOWN_ID]
FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"
MALFORMED_BODIES = [
    (b"\xff\xfe=\xff", FORM_CONTENT_TYPE),
    (b"%ff%00=%00&&==&%zz", FORM_CONTENT_TYPE),
    (b"a=" + b"b" * 600_000, FORM_CONTENT_TYPE),
    (b"&".join(b"a=%d" % number for number in range(3000)), FORM_CONTENT_TYPE),
    (b'{"email": "a"}', "application/json"),
    (b"\x00" * 100, "application/octet-stream"),
    (b"no boundary", "multipart/form-data"),
    (b"--x\r\nContent-Disposition: form-data; name=\xff\r\n\r\n\x00\r\n--x--", "multipart/form-data; boundary=x"),
    (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
    (b"--x\r\n" + b"A: b\r\n" * 3000, "multipart/form-data; boundary=x"),
    (b"a=1", FORM_CONTENT_TYPE + "; charset=nosuch"),
]


SCRIPT_HEADERS = {"Accept": "application/json"}


def choose_headers(number, otherwise=PARTIAL_HEADERS):
    """Return headers for a request: one in eight is for a whole page, whose layout takes most of the time."""
    return otherwise if number % 8 else {}


def assert_refused(answer, *statuses):
    assert answer.status_code in statuses, (answer.request.path[:200], answer.status, answer.text[:500])


@pytest.fixture
def start_pages(cast):
    """Create an instance. Return (role, first page) of both areas."""
    cast.instance(display_name="a")
    return ("owner", "/"), ("admin", "/admin")


def test_malformed_page_queries_never_cause_5xx(browser_as, start_pages):
    for caller, start in start_pages:
        browser = browser_as(caller)
        paths = [path.partition("?")[0] for path, _ in link_crawler.crawl_pages(browser, start)]
        assert len(paths) > 5
        requests = 0
        for number, path in enumerate(paths):
            for query in malformed_input.MALFORMED_QUERIES[number % 5 :: 5]:
                assert_refused(browser.get(f"{path}?{query}", headers=choose_headers(requests)), 200, 303, 404, 422)
                requests += 1


@pytest.mark.parametrize("value", malformed_input.MALFORMED_IDS[::2], ids=lambda value: value[:12])
def test_malformed_page_ids_never_cause_5xx(app, browser_as, value):
    requests = 0
    for caller in ("owner", "admin"):
        browser = browser_as(caller)
        for method in ("GET", "POST"):
            for address, _ in find_page_addresses(app, method):
                if UNKNOWN_ID in address:
                    headers = choose_headers(requests, otherwise=SCRIPT_HEADERS)
                    answer = browser.open(address.replace(UNKNOWN_ID, value), method=method, headers=headers)
                    redirect_status = 200 if answer.is_json else 303  # after revoking a session that does not exist
                    assert_refused(answer, redirect_status, 400, 403, 404, 405, 422)
                    requests += 1
    assert requests > 50


def test_malformed_form_values_never_cause_5xx(browser_as, start_pages):
    """Send each form that links reach, with one malformed field at a time, as whole page and as partial request."""
    requests = 0
    for caller, start in start_pages:
        for path, answer in list(link_crawler.crawl_pages(browser_as(caller), start)):
            for method, to, initial_values, names in link_crawler.find_forms(path, answer):
                browser = browser_as(caller)  # a new session, because the last form may have ended the old one
                for name in names if not set(names) & {"password", "current_password"} else ():
                    for value in MALFORMED_VALUES[requests % 5 :: 5]:
                        sent = initial_values | {name: value}
                        options = {"data": sent} if method == "POST" else {"query_string": sent}
                        address = to if method == "POST" else to.partition("?")[0]  # as browsers do
                        answer = browser.open(address, method=method, headers=choose_headers(requests), **options)
                        assert_refused(answer, 200, 303, 400, 404, 409, 413, 422)
                        requests += 1
    assert requests > 200


@pytest.mark.parametrize("field", ["instance_ids", "back"])
def test_nul_in_a_form_without_schema_is_refused(browser_as, cast, field):
    group = security_groups.create(cast.owner, name="web")
    session.commit()
    values = {"instance_ids": cast.instance().id, field: "\0"}
    answer = browser_as("admin").post(f"/admin/security-groups/{group.id}/attach", data=values)
    assert_refused(answer, 303, 422)  # SQLite looks for such an instance, and finds none


@pytest.mark.parametrize(("body", "content_type"), MALFORMED_BODIES, ids=lambda value: repr(value[:24]))
def test_malformed_form_bodies_never_cause_5xx(app, browser_as, body, content_type):
    browsers = [browser_as("owner"), browser_as("admin")]
    for number, (address, _) in enumerate(find_page_addresses(app, "POST")):
        for browser in browsers:
            headers = choose_headers(number)
            answer = browser.post(address, data=body, content_type=content_type, headers=headers)
            assert_refused(answer, 200, 303, 400, 401, 403, 404, 405, 409, 413, 415, 422)
