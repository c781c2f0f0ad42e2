"""Checks of every response that a test client gets.

ENV-01, ENV-02, ENV-03, ENV-12, ENV-16, ENV-17, ENV-18, ENV-32, ERR-01, ERR-02, ERR-12.
"""

import re
from functools import cache

from flask.testing import FlaskClient

from api.docs import build_openapi_document
from api.errors import SANDBOX_PREFIX, find_dialect
from api.sandbox.host import is_api_host
from panel.core import context
from tests.support import audit_assertions

ALIAS_ENDPOINT = re.compile(r"_\d+$")
"""Suffix of the endpoints of an operation's additional paths."""
ENVELOPE_KEYS = {"success", "message", "data", "meta", "errors", "reason"}
HTML_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class CheckingClient(FlaskClient):
    """A test client that checks every response."""

    def open(self, *args, **options):
        audit_assertions.reset_written_tables()
        answer = super().open(*args, **options)
        request = answer.request
        path = get_inner_path(request)
        try:
            check_response(request.method, path, answer)
            ensure_documented_keys(self.application, request.method, path, answer)
            audit_assertions.check_audit_entries(request.method, path, answer)
        except AssertionError as error:
            raise AssertionError(f"{request.method} {request.path}: {answer.status} {answer.data[:500]}") from error
        return answer


def get_inner_path(request):
    """Return the path of the route: the sandbox API has a host name of its own, whose paths have no prefix."""
    domain = context.current().config.sandbox_domain
    return SANDBOX_PREFIX + request.path if domain and is_api_host(request.host, domain) else request.path


def check_response(method, path, answer):
    check_common_headers(answer)
    surface = find_dialect(path)
    if surface:
        check_api_response(answer, surface)
        if method != "HEAD" and answer.status_code != 304 and "Content-Encoding" not in answer.headers:
            ENVELOPE_CHECKS[surface](answer)
    elif answer.mimetype == "text/html":
        check_html_page(answer)


def check_common_headers(answer):
    headers = answer.headers
    for name in ("Location", "HX-Redirect", "HX-Location", "HX-Push-Url"):
        assert name not in headers or is_own_address(headers[name]), name
    for cookie in headers.getlist("Set-Cookie"):
        assert "HttpOnly" in cookie
        assert "SameSite=" in cookie
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Request-Id"]
    assert "Cache-Control" in headers  # otherwise browsers choose a cache policy, also for requests of scripts
    assert (answer.status_code == 429) <= ("Retry-After" in headers)


def is_own_address(address):
    """Return whether the address is on this panel. Browsers remove white space and treat backslashes as slashes."""
    normalized = re.sub(r"[\x00-\x20]", "", address).replace("\\", "/")
    return normalized.startswith("/") and not normalized.startswith("//")


def check_api_response(answer, surface):
    assert answer.status_code not in (301, 302, 303, 307, 308)
    assert answer.status_code != 204 or surface == "sandbox"
    cache_control = answer.headers["Cache-Control"]
    assert cache_control == "no-store" or answer.status_code in (200, 304), cache_control
    assert "public" not in cache_control


def check_admin_envelope(answer):
    assert answer.headers["X-Api-Envelope"] == "v1"
    if answer.mimetype == "text/csv":
        return
    body = answer.json
    assert body.keys() <= ENVELOPE_KEYS
    assert body["success"] is (answer.status_code < 400)
    assert "X-Failure-Status-Mapped" not in answer.headers or answer.status_code == 400
    check_refusal(answer)


def check_user_envelope(answer):
    assert not {"X-Api-Envelope", "X-Failure-Status-Mapped"} & set(answer.headers.keys())
    body = answer.json if answer.mimetype == "application/json" else {}
    assert not (answer.status_code < 400 and isinstance(body, dict) and body.get("success") is False)
    check_refusal(answer)


def check_sandbox_body(answer):
    """Fail for an error that the SDKs cannot read, and for a body beside a 204."""
    if answer.status_code == 204:
        assert answer.data == b""
    elif answer.status_code >= 400:
        assert answer.json.keys() <= {"code", "message", "error_code"}
        assert answer.json["code"] == answer.status_code
        assert answer.json["message"].strip()
        assert (answer.status_code == 401) == ("WWW-Authenticate" in answer.headers)


ENVELOPE_CHECKS = {"admin": check_admin_envelope, "user": check_user_envelope, "sandbox": check_sandbox_body}


def check_refusal(answer):
    if answer.status_code >= 400:
        body = answer.json
        assert body["success"] is False
        assert body["message"].strip()
        assert "<" not in body["message"][:1]
        assert (answer.status_code == 401) == ("WWW-Authenticate" in answer.headers)
        for texts in body.get("errors", {}).values():
            assert texts
            assert all(isinstance(text, str) for text in texts)


def check_html_page(answer):
    for name, value in HTML_HEADERS.items():
        assert answer.headers[name] == value, name
    policy = answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    nonce = re.search(r"script-src 'nonce-([\w-]{16,})'(;|$)", policy)[1]
    for tag in re.findall(r"<script\b[^>]*>", answer.text):
        assert f'nonce="{nonce}"' in tag, tag
    assert not re.search(r"<[a-z][^>]*\son[a-z]+=", answer.text)


@cache
def documented_responses(app, surface):
    """Return {endpoint: documented responses}, and the document's schemas."""
    with app.app_context():
        document = build_openapi_document(app, surface)
    responses = {}
    for operations in document["paths"].values():
        for operation in operations.values():
            kind, resource, op = operation["operationId"].split(".", 2)
            responses[f"{kind}_{resource}.{op.replace('.', '_')}"] = operation["responses"]
    return responses, document["components"]["schemas"]


def ensure_documented_keys(app, method, path, answer):
    """Fail for a successful answer with a key that its schema does not name."""
    if (
        answer.mimetype != "application/json"
        or "Content-Encoding" in answer.headers
        or answer.status_code >= 300
        or method in ("HEAD", "OPTIONS")
    ):
        return
    endpoint, _ = app.url_map.bind("localhost").match(path, method)
    endpoint = ALIAS_ENDPOINT.sub("", endpoint)
    surface = "USER" if endpoint.startswith("user_") else "ADMIN"
    operations, schemas = documented_responses(app, surface)
    if endpoint in operations:
        content = operations[endpoint].get(str(answer.status_code), {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        unknown = list(find_unknown_keys(answer.json, schema, schemas))
        assert unknown == [], f"keys that the document does not name: {unknown}"


def find_unknown_keys(value, schema, schemas, where=""):
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
    for kind in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(kind, ()):
            yield from find_unknown_keys(value, part, schemas, where)
    if isinstance(value, list):
        for item in value[:3]:
            yield from find_unknown_keys(item, schema.get("items", {}), schemas, f"{where}[]")
    elif isinstance(value, dict) and "properties" in schema:
        additional = schema.get("additionalProperties")
        for key, item in value.items():
            property_schema = schema["properties"].get(key, additional if isinstance(additional, dict) else None)
            if property_schema is None and not additional:
                yield f"{where}.{key}"
            elif property_schema:
                yield from find_unknown_keys(item, property_schema, schemas, f"{where}.{key}")
