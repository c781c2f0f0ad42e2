"""Security headers of responses, redirects, and trust in headers of requests.

tests.support.response_assertions checks the policies of each response of the suite. The tests of this module request
all pages and operations, and check settings that only some installations have.
"""

import ipaddress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies

from api.docs import build_openapi_document
from panel.app import MAX_BODY_BYTES, create_app
from tests.support import isolated_app, link_crawler, response_assertions
from tests.support.cast import PASSWORD, UNKNOWN_ID
from tests.support.malformed_input import fill_path
from tests.support.operations import find_operations, recorded_schedule  # noqa: F401  (fixture)

PROPERTY_SETTINGS = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SECRET_FIELDS = {"password", "secret", "token", "private_key", "recovery_codes"}


@pytest.mark.parametrize(("caller", "start"), [("owner", "/"), ("admin", "/admin"), (None, "/sign-in")])
def test_every_page_has_content_security_policy(browser_as, cast, caller, start):
    cast.instance()
    pages = list(link_crawler.crawl_pages(browser_as(caller), start))
    assert len(pages) > (10 if caller else 0)
    for path, answer in pages:
        assert answer.status_code in (200, 303), path
        assert answer.mimetype != "text/html" or "Content-Security-Policy" in answer.headers


def test_every_operation_answers_with_cache_headers(app, api_as, unlimited_rates, recorded_schedule):
    """ENV-01, ENV-02, ENV-03, ENV-18, ERR-02: with a valid token and without one."""
    answers = 0
    for surface, default_caller in (("USER", "owner"), ("ADMIN", "admin")):
        for method, path, _ in find_operations(app, surface):
            for caller in ("billing" if "/billing/" in path else default_caller, "nobody"):
                answer = api_as(caller, method, fill_path(path, UNKNOWN_ID), data=b"")
                assert answer.status_code < 500, (path, answer.text)
                is_cacheable = method == "GET" and answer.status_code == 200
                assert answer.headers["Cache-Control"] in (
                    "no-store",
                    "private, no-cache" if is_cacheable else "no-store",
                )
                answers += 1
    assert answers > 150


SESSION_PATHS = {
    "/api/instance/{instance_id}/novnc",
    "/api/instance/{instance_id}/webssh",
    "/api/v1/instance/{instance_id}/novnc",
    "/api/v1/instance/{instance_id}/ssh",
    "/api/instance/{instance_id}/rescue",
    "/api/v1/instance/{instance_id}/rescue",
}
"""GET operations that create a session or return its password. Other tests check that
their answers are not cached."""


@pytest.mark.parametrize("surface", ["USER", "ADMIN"])
def test_answers_of_get_have_no_secret_fields(app, surface):
    """Answers of GET may be cached and revalidated, so secrets are returned by POST only, with `no-store`."""
    schemas = build_openapi_document(app, surface)["components"]["schemas"]

    def find_fields(schema, seen=()):
        for name, facts in schemas.get(schema, {}).get("properties", {}).items():
            yield name
            inner = facts.get("$ref") or facts.get("items", {}).get("$ref") or ""
            if inner and inner not in seen:
                yield from find_fields(inner.rpartition("/")[2], (*seen, inner))

    for method, path, operation in find_operations(app, surface):
        for status, answer in operation["responses"].items():
            schema = answer.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
            if method == "GET" and status.startswith("2") and path not in SESSION_PATHS:
                assert not SECRET_FIELDS & set(find_fields(schema.rpartition("/")[2])), path


def test_answer_with_secret_has_no_store(api_as, cast):
    body = {"name": "k", "algorithm": "ed25519"}
    answer = api_as("owner", "POST", "/api/ssh-key/generate", json=body)
    assert "PRIVATE KEY" in answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert "ETag" not in answer.headers


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PROPFIND", "A" * 100])
def test_unsupported_methods_answer_405(api_as, browser_as, method):
    """ENV-11, ERR-12"""
    for caller, path in (("owner", "/api/instances"), ("admin", "/api/v1/instances")):
        answer = api_as(caller, method, path)
        assert answer.status_code == 405
        assert "GET" in answer.headers["Allow"]
    assert browser_as("owner").open("/instances", method=method).status_code == 405


def test_head_returns_get_headers_without_body(api_as):
    """HEAD returns the status and envelope header of GET."""
    for caller, path in (("owner", "/api/instances"), ("admin", "/api/v1/instances"), ("admin", "/api/v1/nosuch")):
        head, get = api_as(caller, "HEAD", path), api_as(caller, "GET", path)
        assert (head.status_code, head.data) == (get.status_code, b"")
        assert head.headers.get("X-Api-Envelope") == get.headers.get("X-Api-Envelope")


class TestHttps:
    @pytest.fixture
    def https_app(self, tmp_path):
        settings = {"public_url": "https://panel.example.com", "redis_url": "redis://127.0.0.1:1"}
        with isolated_app.isolated_installation(tmp_path, create=create_app, **settings) as app:
            app.testing = True
            app.test_client_class = response_assertions.CheckingClient
            yield app

    def test_https_installation_sends_hsts_and_secure_cookies(self, https_app):
        with https_app.test_client() as browser:
            for path in ("/sign-in", "/nosuch", "/api/v1/auth", "/api/connect", "/healthz"):
                strict = browser.get(path).headers["Strict-Transport-Security"]
                assert strict == "max-age=31536000"
            sent = {"email": "owner@example.com", "password": PASSWORD}
            answer = browser.post("/sign-in", data=sent, headers={"Sec-Fetch-Site": "same-origin"})
            assert answer.status_code == 303
            cookies = answer.headers.getlist("Set-Cookie")
            assert cookies
            for cookie in cookies:
                assert {"Secure", "HttpOnly"} <= set(cookie.split("; "))
                assert "SameSite=Lax" in cookie or "SameSite=Strict" in cookie


def test_http_installation_sends_no_hsts(browser_as):
    for path in ("/sign-in", "/api/connect"):
        assert "Strict-Transport-Security" not in browser_as().get(path).headers


OUTSIDE_ADDRESSES = [
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "https://evil.example",
    "https:evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "\t//evil.example",
    " //evil.example",
    "/\r\nLocation: https://evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "/..//evil.example",
    "/%2f%2fevil.example",
    "/%5cevil.example",
    "@evil.example",
    ".evil.example",
    "/\u2028/evil.example",
    "//[::1",
    "http://[",
    "/\u3002evil.example",
    "/x?y=//evil.example",
]


@pytest.mark.parametrize("next_url", OUTSIDE_ADDRESSES)
def test_sign_in_does_not_redirect_to_outside_address(browser_as, next_url):
    assert_redirect_is_local(browser_as("owner").get("/sign-in", query_string={"next": next_url}))


@PROPERTY_SETTINGS
@given(
    start=strategies.sampled_from(["", "/", "//", "/\\", "https://", "\\", "/x", "/@", "/.", "/;", "/?"]),
    suffix=strategies.text(),
)
@example(start="/", suffix="\t/evil.example")
def test_redirects_stay_local_for_any_target(browser_as, start, suffix):
    """Any value of `next` redirects to a page of this panel."""
    assert_redirect_is_local(browser_as("owner").get("/sign-in", query_string={"next": start + suffix}))
    url = start + suffix.encode("ascii", "ignore").decode().translate({10: None, 13: None, 0: None})
    assert_redirect_is_local(browser_as().get("/instances", headers={"HX-Current-URL": url, "HX-Request": "true"}))


def assert_redirect_is_local(answer):
    """Check that the answer redirects or is a 404. `CheckingClient` has checked that the address is local."""
    assert answer.status_code == 404 or {"Location", "HX-Redirect"} & set(answer.headers.keys()), answer.status


FORGED_HEADERS = {
    "Host": "evil.example",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Prefix": "/evil",
    "Forwarded": "for=192.0.2.9;host=evil.example;proto=https",
    "X-Original-URL": "/api/v1/auth",
    "X-Rewrite-URL": "/api/v1/auth",
    "X-HTTP-Method-Override": "DELETE",
}


def test_forged_host_headers_do_not_appear_on_pages(browser_as, cast):
    """Links, redirects and cookies are not built from headers of the request."""
    browser = browser_as("owner")
    for path in ("/", "/instances", "/profile", "/nosuch"):
        answer = browser.get(path, headers=FORGED_HEADERS)
        assert "evil" not in answer.text + str(answer.headers)
    answer = browser_as().get("/instances", headers=FORGED_HEADERS)
    assert answer.headers["Location"] == "/sign-in?next=/instances"


def test_forged_host_headers_do_not_change_api_answers(api_as):
    for caller, path in (("owner", "/api/connect"), ("nobody", "/api/connect"), ("admin", "/api/v1/auth")):
        plain, forged = api_as(caller, "GET", path), api_as(caller, "GET", path, headers=FORGED_HEADERS)
        assert (plain.status_code, plain.data) == (forged.status_code, forged.data)


@pytest.fixture
def set_trusted_proxies(app):
    """Return a function that sets the networks of trusted proxies."""
    original = app.extensions["config"]

    def set_networks(networks):
        app.extensions["config"] = replace(original, trusted_proxies=networks)

    yield set_networks
    app.extensions["config"] = original


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "source"),
    [
        ("", "10.0.0.1", "192.0.2.1", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.1", "192.0.2.1", "192.0.2.1"),
        ("10.0.0.0/8", "192.0.2.9", "192.0.2.1", "192.0.2.9"),
        ("10.0.0.0/8", "10.0.0.1", "203.0.113.9, 192.0.2.1", "192.0.2.1"),
        ("10.0.0.0/8", "10.0.0.1", "192.0.2.1, 10.0.0.2", "192.0.2.1"),
        ("10.0.0.0/8", "10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.1", "192.0.2.1, nonsense", "10.0.0.1"),
        ("10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::/32", "2001:db8::1", "2001:db8:ffff::1, 2001:db9::5", "2001:db9::5"),
    ],
)
def test_forwarded_address_is_read_from_trusted_proxies_only(
    app, set_trusted_proxies, trusted, peer, forwarded, source
):
    from panel.auth import get_source_address

    set_trusted_proxies(trusted)
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    with app.test_request_context("/", headers=headers, environ_base={"REMOTE_ADDR": peer}):
        assert get_source_address() == ipaddress.ip_address(source)


@PROPERTY_SETTINGS
@given(forwarded=strategies.text(strategies.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=60))
def test_any_forwarded_address_gives_source_address(app, set_trusted_proxies, forwarded):
    from panel.auth import get_source_address

    set_trusted_proxies("10.0.0.0/8")
    sent = {"X-Forwarded-For": forwarded}
    with app.test_request_context("/", headers=sent, environ_base={"REMOTE_ADDR": "10.0.0.1"}):
        assert get_source_address()


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/ssh-keys"), ("POST", "/api/v1/instances")])
def test_too_large_body_answers_413(api_as, method, path):
    caller = "admin" if "v1" in path else "owner"
    assert api_as(caller, method, path, data=b" " * MAX_BODY_BYTES).status_code == 422
    answer = api_as(caller, method, path, data=b" " * (MAX_BODY_BYTES + 1))
    assert (answer.status_code, answer.json["success"]) == (413, False)


def test_too_large_form_answers_413(browser_as):
    assert browser_as("owner").post("/profile", data={"timezone": "x" * (MAX_BODY_BYTES + 1)}).status_code == 413
