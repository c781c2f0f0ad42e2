"""API tokens on the customer pages."""

import re

from sqlalchemy import select

from panel.auth import permissions, permissions_in_use
from panel.core import clock
from panel.core.db import session
from panel.models import Account, AuditEntry, Member, Token
from panel.services import settings, tokens
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline


def create_token(cast, caller="owner", **facts):
    facts = {"name": "ci", "scopes": permissions.USER_SCOPES, **facts}
    token, value = tokens.issue("user", account=getattr(cast, caller), **facts)
    session.commit()
    return token, value


def find_newest_token():
    return session.scalar(select(Token).order_by(Token.id.desc()))


def test_create_page_shows_token_value_once(browser_as, api_as, cast):
    """IDT-07"""
    browser = browser_as("owner")
    form = {"name": "ci", "scopes": ["", "account:read", "metrics:read"], "allowed_ips": "127.0.0.0/8\n", "hours": "24"}
    answer = browser.post("/api-tokens/new", data=form)
    token = find_newest_token()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/api-tokens/{token.id}/made")
    page = browser.get(answer.headers["Location"])
    value = re.search(r'id="value"[^>]* value="(pu_[^"]+)"', page.text)[1]
    assert f"curl -H &#39;Authorization: Bearer {value}&#39; http://localhost:8000/api/connect" in page.text
    assert (token.scopes, token.allowed_ips) == (["metrics:read", "account:read"], ["127.0.0.0/8"])
    assert (token.expires_at - clock.now()).total_seconds() > 23 * 3600
    assert browser.get(answer.headers["Location"]).headers["Location"] == f"/api-tokens/{token.id}"
    assert value not in browser.get("/api-tokens").text + browser.get(f"/api-tokens/{token.id}").text
    cast.tokens["made"] = value
    assert api_as("made", "GET", "/api/connect").status_code == 200
    assert api_as("made", "GET", "/api/instances").status_code == 403


def test_create_form_shows_field_errors(browser_as):
    answer = browser_as("owner").post(
        "/api-tokens/new", data={"name": "x", "scopes": "", "allowed_ips": "10.0.0.1/24", "hours": "3"}
    )
    assert answer.status_code == 422
    for sentence in ("Choose at least one scope.", "10.0.0.1/24 is a host in the network 10.0.0.0/24"):
        assert sentence in answer.text


def find_checked_scopes(answer):
    return set(re.findall(r'value="(\w+:\w+)"[^>]*id="scope-[^>]* checked', answer.text))


def test_preset_buttons_fill_scopes_and_keep_other_fields(browser_as):
    """Presets work without JavaScript."""
    settings.update({"billing_enabled": True})
    session.commit()
    browser = browser_as("owner")
    fill = lambda button, **data: browser.post("/api-tokens/new", data={"name": "<ci>", "fill": button, **data})  # noqa: E731
    scopes = permissions_in_use.list_used_scopes()
    read_scopes = {scope for scope in scopes if scope.endswith(":read")}
    assert find_checked_scopes(fill("preset:read")) == read_scopes
    assert find_checked_scopes(fill("preset:metrics")) == {"metrics:read"} & scopes
    assert find_checked_scopes(fill("preset:all")) == scopes
    assert {"instances:write", "images:read", "ssh_keys:write"} < find_checked_scopes(fill("preset:deploy"))
    assert "account:write" not in find_checked_scopes(fill("preset:deploy"))
    assert find_checked_scopes(fill("column:read", scopes=["instances:write"])) == read_scopes | {"instances:write"}
    assert find_checked_scopes(fill("column:read", scopes=[*read_scopes, "instances:write"])) == {"instances:write"}
    assert find_checked_scopes(fill("preset:nonsense", scopes=["images:read"])) == {"images:read"}
    page = fill("address", allowed_ips="10.0.0.0/8")
    assert "10.0.0.0/8\n127.0.0.1" in page.text
    assert 'value="&lt;ci&gt;"' in page.text
    partial = browser.post("/api-tokens/new", data={"name": "", "fill": "preset:read"}, headers=PARTIAL_HEADERS)
    assert partial.text.lstrip().startswith('<form id="form"')
    assert "is-invalid" not in partial.text
    assert find_newest_token().name == "test"


def test_token_page_narrows_scopes(browser_as, cast):
    token, _ = create_token(cast, scopes=["instances:read", "instances:write"])
    address = f"/api-tokens/{token.id}"
    assert "scope-vpcs-read" not in browser_as("owner").get(address).text
    change = {"name": "new", "scopes": ["", "instances:read"], "allowed_ips": "2001:db8::1", "hours": "1"}
    assert browser_as("owner").post(address, data=change).status_code == 303
    token = session.get(Token, token.id)
    assert (token.name, token.scopes, token.allowed_ips) == ("new", ["instances:read"], ["2001:db8::1"])
    later = browser_as("owner").post(address, data={**change, "hours": "24"})
    assert later.status_code == 422
    assert "Can only be moved earlier" in later.text
    wider = browser_as("owner").post(address, data={**change, "hours": "", "scopes": ["vpcs:read", "instances:read"]})
    assert "This one does not have vpcs:read." in wider.text


def test_token_page_revokes_token(browser_as, api_as, cast):
    token, cast.tokens["made"] = create_token(cast)
    assert api_as("made", "GET", "/api/connect").status_code == 200
    assert browser_as("outsider").post(f"/api-tokens/{token.id}/revoke").status_code == 404
    assert browser_as("owner").post(f"/api-tokens/{token.id}/revoke").status_code == 303
    assert api_as("made", "GET", "/api/connect").status_code == 401
    entry = session.scalar(select(AuditEntry).where(AuditEntry.object_id == token.id))
    assert (entry.person, entry.action) == ("owner@example.com", "tokens.revoke")


def test_revoke_on_token_page_redirects_to_list(browser_as, cast):
    (first, _), (second, _) = create_token(cast), create_token(cast)
    stays = browser_as("owner").post(f"/api-tokens/{first.id}/revoke", headers=PARTIAL_HEADERS)
    assert (stays.headers["HX-Trigger"], "HX-Redirect" in stays.headers) == ("changed", False)
    leaves = browser_as("owner").post(f"/api-tokens/{second.id}/revoke", data={"leave": "1"}, headers=PARTIAL_HEADERS)
    assert leaves.headers["HX-Redirect"] == "/api-tokens"


def test_token_list_shows_only_own_tokens(browser_as, cast):
    create_token(cast, "owner", name="of the owner")
    create_token(cast, "member", name="of the member")
    create_token(cast, "owner", maker=cast.member, name="of old times")
    owner, member, viewer = (browser_as(caller).get("/api-tokens").text for caller in ("owner", "member", "viewer"))
    assert ["of the owner" in owner, "of the member" in owner, "of old times" in owner] == [True, False, True]
    assert ["of the owner" in member, "of the member" in member, "of old times" in member] == [False, True, True]
    assert "By a member" in owner
    assert "As the owner" in member
    assert "api_tokens.manage" in viewer
    assert "of " not in re.sub(r"(?s).*<tbody>(.*)</tbody>.*", r"\1", viewer)


def test_create_page_requires_member_permission(browser_as, cast):
    """IDT-43"""
    for method in ("GET", "POST"):
        answer = browser_as("viewer").open("/api-tokens/new", method=method)
        assert answer.status_code == 403
        assert "api_tokens.manage" in answer.text
    assert browser_as("member").post("/api-tokens/new", data={"name": "m", "scopes": "metrics:read"}).status_code == 303
    assert find_newest_token().account_id == cast.member.id


def test_token_list_query_count_is_constant(browser_as, cast, queries):
    counts = []
    for _ in range(2):
        for _ in range(3):
            create_token(cast, maker=cast.member)
        browser = browser_as("owner")
        queries.clear()
        browser.get("/api-tokens")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def explain_request(browser, value, request="GET /api/instances", address="203.0.113.7"):
    answer = browser.post("/api-tokens/test", data={"token": value, "request": request, "address": address})
    return answer.text


def test_permission_check_lists_all_reasons(browser_as, cast):
    """Every reason for a rejection is shown, with the message of the permission check."""
    browser = browser_as("owner")
    _, value = create_token(cast, scopes=["metrics:read"], allowed_ips=["10.0.0.0/8"])
    text = explain_request(browser, value)
    assert "This request would be rejected" in text
    assert "The token may not be used from this address." in text
    assert "it needs instances:read" in text
    assert "owner@example.com" in text
    assert "This request would be allowed" in explain_request(browser, value, "GET /api/connect", "10.1.2.3")
    assert value not in browser.get("/api-tokens/test").text


def test_permission_check_explains_member_token(browser_as, cast):
    member = session.scalar(select(Member).where(Member.account_id == cast.member.id))
    member.role.permissions = ["instances.view"]
    _, value = create_token(cast, "member")
    assert "it needs instances.create" in explain_request(
        browser_as("member"), value, "POST /api/cloud-service/instances"
    )
    assert "This request would be allowed" in explain_request(browser_as("member"), value, "get /api/instance/{id}")


def test_permission_check_explains_expired_and_disabled_tokens(browser_as, cast):
    token, value = create_token(cast, expires_at=clock.now())
    assert "The token is expired." in explain_request(browser_as("owner"), value)
    token.expires_at, token.enabled = None, False
    session.commit()
    assert "The token is off." in explain_request(browser_as("owner"), value)


def test_permission_check_hides_foreign_tokens(browser_as, cast):
    _, value = create_token(cast, "outsider", name="secret name")
    for shown in (value, cast.tokens["admin"], cast.tokens["member"], "pu_" + "x" * 43):
        text = explain_request(browser_as("owner"), shown)
        assert "Not a valid token of this account." in text
        assert "secret name" not in text
    for request in ("GET /nothing", "GET", "DANCE /api/instances", "GET /api/v1/users", "GET /api-tokens"):
        assert "There is no such operation of the user API." in explain_request(
            browser_as("owner"), cast.tokens["owner"], request
        )
    assert "Not a valid IP address." in explain_request(browser_as("owner"), cast.tokens["owner"], address="x")


def test_token_pages_are_well_formed(browser_as, cast):
    token, value = create_token(cast, name="<b>&'\"")
    browser = browser_as("owner")
    tested = browser.post("/api-tokens/test", data={"token": value, "request": "GET /api/vpcs", "address": "::1"})
    pages = [
        browser.get(at) for at in ("/api-tokens", "/api-tokens/new", "/api-tokens/test", f"/api-tokens/{token.id}")
    ]
    for answer in (*pages, tested):
        assert answer.status_code in (200, 404, 422)
        outline = HtmlOutline(answer.text)
        assert outline.open == []
        assert len(outline.ids) == len(set(outline.ids))
        assert "<b>&" not in answer.text


def test_create_form_offers_only_used_scopes(browser_as):
    """The form offered families without an operation. The API accepts all."""
    settings.update({"billing_enabled": True})
    session.commit()
    page = browser_as("owner").get("/api-tokens/new").text
    shown = set(re.findall(r'name="scopes" value="(\w+:\w+)"', page))
    assert shown == permissions_in_use.list_used_scopes()
    assert "kubernetes:read" not in shown


def test_create_form_hides_billed_scopes_without_billing(browser_as, cast):
    """Volume scopes were offered, but the API answered billing_disabled. Unbilled accounts may use them."""
    browser = browser_as("owner")
    page = browser.get("/api-tokens/new").text
    assert 'value="instances:read"' in page
    assert "volumes:" not in page
    filled = browser.post("/api-tokens/new", data={"name": "x", "fill": "preset:all"})
    assert "account:write" in find_checked_scopes(filled)
    assert not {scope for scope in find_checked_scopes(filled) if scope.startswith("volumes:")}
    session.get(Account, cast.owner.id).self_provisioning = True
    session.commit()
    assert 'value="volumes:read"' in browser.get("/api-tokens/new").text
