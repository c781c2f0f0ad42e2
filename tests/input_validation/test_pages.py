"""Pages, sent what nobody should send: a page that says so, and never a fault of ours."""

import pytest

from tests.support import link_crawler, malformed_input
from tests.test_pages import PARTIAL_HEADERS, UNKNOWN_ID, page_addresses

VALUES = ["", "\0", "\n", "\u202e\uffff", "🦊" * 300, "x" * 100_000, "9" * 400, "-1", "1e999", UNKNOWN_ID]
FORM = "application/x-www-form-urlencoded"
BODIES = [
    (b"\xff\xfe=\xff", FORM),
    (b"%ff%00=%00&&==&%zz", FORM),
    (b"a=" + b"b" * 600_000, FORM),
    (b"&".join(b"a=%d" % number for number in range(3000)), FORM),
    (b'{"email": "a"}', "application/json"),
    (b"\x00" * 100, "application/octet-stream"),
    (b"no boundary", "multipart/form-data"),
    (b"--x\r\nContent-Disposition: form-data; name=\xff\r\n\r\n\x00\r\n--x--", "multipart/form-data; boundary=x"),
    (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
    (b"--x\r\n" + b"A: b\r\n" * 3000, "multipart/form-data; boundary=x"),
    (b"a=1", FORM + "; charset=nosuch"),
]


def assert_refused(answer, *statuses):
    assert answer.status_code in statuses, (answer.request.path[:200], answer.status, answer.text[:500])


@pytest.fixture
def cast_with_resources(cast):
    """Something to look at."""
    cast.instance(display_name="a")
    return ("owner", "/"), ("admin", "/admin")


def test_odd_queries(browser_as, cast_with_resources):
    for who, start in cast_with_resources:
        browser = browser_as(who)
        paths = [path.partition("?")[0] for path, _ in link_crawler.crawl_pages(browser, start)]
        assert len(paths) > 5
        for number, path in enumerate(paths):
            for query in malformed_input.MALFORMED_QUERIES[number % 5 :: 5]:
                assert_refused(browser.get(f"{path}?{query}"), 200, 303, 404, 422)


@pytest.mark.parametrize("value", malformed_input.MALFORMED_IDS[::2], ids=lambda value: value[:12])
def test_odd_ids(app, browser_as, value):
    asked = 0
    for who in ("owner", "admin"):
        browser = browser_as(who)
        for method in ("GET", "POST"):
            for address, _ in page_addresses(app, method):
                if UNKNOWN_ID in address:
                    answer = browser.open(address.replace(UNKNOWN_ID, value), method=method)
                    assert_refused(answer, 303, 400, 403, 404, 405, 422)
                    asked += 1
    assert asked > 50


def test_odd_values_in_every_field(browser_as, cast_with_resources):
    """Each field of each form that a person can find, the others as the page fills them in; as a page and as a part."""
    tried = 0
    for who, start in cast_with_resources:
        for path, answer in list(link_crawler.crawl_pages(browser_as(who), start)):
            for method, to, known, names in link_crawler.find_forms(path, answer):
                browser = browser_as(who)  # signed in again, whatever the last form did
                for name in names if not set(names) & {"password", "current_password"} else ():
                    for value in VALUES[tried % 5 :: 5]:
                        sent = known | {name: value}
                        options = {"data": sent} if method == "POST" else {"query_string": sent}
                        answer = browser.open(
                            to, method=method, headers=PARTIAL_HEADERS if tried % 2 else {}, **options
                        )
                        assert_refused(answer, 200, 303, 400, 404, 409, 413, 422)
                        tried += 1
    assert tried > 200


@pytest.mark.parametrize(("body", "kind"), BODIES, ids=lambda value: repr(value[:24]))
def test_odd_bodies(app, browser_as, body, kind):
    browsers = [browser_as("owner"), browser_as("admin")]
    for address, _ in page_addresses(app, "POST"):
        for browser in browsers:
            answer = browser.post(address, data=body, content_type=kind)
            assert_refused(answer, 200, 303, 400, 401, 403, 404, 405, 409, 413, 415, 422)
