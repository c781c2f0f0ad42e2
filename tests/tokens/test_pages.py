"""API tokens on the customers' pages."""

import re

from sqlalchemy import select

from panel.auth import permissions, permissions_in_use
from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, Member, Token
from panel.services import tokens
from tests.test_pages import PART, Outline


def made(cast, who="owner", **facts):
    facts = {"name": "ci", "scopes": permissions.USER, **facts}
    token, value = tokens.issue("user", account=getattr(cast, who), **facts)
    session.commit()
    return token, value


def newest():
    return session.scalar(select(Token).order_by(Token.id.desc()))


def test_create_shows_the_value_once_and_it_works(browse, as_, cast):
    """IDT-07"""
    browser = browse("owner")
    form = {"name": "ci", "scopes": ["", "account:read", "metrics:read"], "allowed_ips": "127.0.0.0/8\n", "hours": "24"}
    answer = browser.post("/api-tokens/new", data=form)
    token = newest()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/api-tokens/{token.id}/made")
    page = browser.get(answer.headers["Location"])
    value = re.search(r'id="value"[^>]* value="(pu_[^"]+)"', page.text)[1]
    assert f"curl -H &#39;Authorization: Bearer {value}&#39; http://localhost:8000/api/connect" in page.text
    assert (token.scopes, token.allowed_ips) == (["metrics:read", "account:read"], ["127.0.0.0/8"])
    assert (token.expires_at - clock.now()).total_seconds() > 23 * 3600
    assert browser.get(answer.headers["Location"]).headers["Location"] == f"/api-tokens/{token.id}"
    assert value not in browser.get("/api-tokens").text + browser.get(f"/api-tokens/{token.id}").text
    cast.tokens["made"] = value
    assert as_("made", "GET", "/api/connect").status_code == 200
    assert as_("made", "GET", "/api/instances").status_code == 403


def test_what_is_wrong_stands_beside_its_field(browse):
    answer = browse("owner").post(
        "/api-tokens/new", data={"name": "x", "scopes": "", "allowed_ips": "10.0.0.1/24", "hours": "3"}
    )
    assert answer.status_code == 422
    for sentence in ("Choose at least one scope.", "10.0.0.1/24 is a host in the network 10.0.0.0/24"):
        assert sentence in answer.text


def checked(answer):
    return set(re.findall(r'value="(\w+:\w+)"[^>]*id="scope-[^>]* checked', answer.text))


def test_buttons_fill_the_form_in_and_keep_the_rest(browse):
    """The presets of ask 21, without JavaScript."""
    browser = browse("owner")
    fill = lambda what, **more: browser.post("/api-tokens/new", data={"name": "<ci>", "fill": what, **more})  # noqa: E731
    every = permissions_in_use.used_scopes()
    reads = {scope for scope in every if scope.endswith(":read")}
    assert checked(fill("preset:read")) == reads
    assert checked(fill("preset:metrics")) == {"metrics:read"} & every
    assert checked(fill("preset:all")) == every
    assert {"instances:write", "images:read", "ssh_keys:write"} < checked(fill("preset:deploy"))
    assert "account:write" not in checked(fill("preset:deploy"))
    assert checked(fill("column:read", scopes=["instances:write"])) == reads | {"instances:write"}
    assert checked(fill("column:read", scopes=[*reads, "instances:write"])) == {"instances:write"}
    assert checked(fill("preset:nonsense", scopes=["images:read"])) == {"images:read"}
    here = fill("address", allowed_ips="10.0.0.0/8")
    assert "10.0.0.0/8\n127.0.0.1" in here.text
    assert 'value="&lt;ci&gt;"' in here.text
    part = browser.post("/api-tokens/new", data={"name": "", "fill": "preset:read"}, headers=PART)
    assert part.text.lstrip().startswith('<form id="form"')
    assert "is-invalid" not in part.text
    assert newest().name == "test"


def test_edit_narrows(browse, cast):
    token, _ = made(cast, scopes=["instances:read", "instances:write"])
    address = f"/api-tokens/{token.id}"
    assert "scope-vpcs-read" not in browse("owner").get(address).text
    change = {"name": "new", "scopes": ["", "instances:read"], "allowed_ips": "2001:db8::1", "hours": "1"}
    assert browse("owner").post(address, data=change).status_code == 303
    token = session.get(Token, token.id)
    assert (token.name, token.scopes, token.allowed_ips) == ("new", ["instances:read"], ["2001:db8::1"])
    later = browse("owner").post(address, data={**change, "hours": "24"})
    assert later.status_code == 422
    assert "the life of a token can only be shortened" in later.text
    wider = browse("owner").post(address, data={**change, "hours": "", "scopes": ["vpcs:read", "instances:read"]})
    assert "It does not have vpcs:read." in wider.text


def test_revoke(browse, as_, cast):
    token, cast.tokens["made"] = made(cast)
    assert as_("made", "GET", "/api/connect").status_code == 200
    assert browse("outsider").post(f"/api-tokens/{token.id}/revoke").status_code == 404
    assert browse("owner").post(f"/api-tokens/{token.id}/revoke").status_code == 303
    assert as_("made", "GET", "/api/connect").status_code == 401
    entry = session.scalar(select(AuditEntry).where(AuditEntry.object_id == token.id))
    assert (entry.person, entry.action) == ("owner@example.com", "tokens.revoke")


def test_whoever_revokes_on_the_page_of_the_token_leaves_it(browse, cast):
    (first, _), (second, _) = made(cast), made(cast)
    stays = browse("owner").post(f"/api-tokens/{first.id}/revoke", headers=PART)
    assert (stays.headers["HX-Trigger"], "HX-Redirect" in stays.headers) == ("changed", False)
    leaves = browse("owner").post(f"/api-tokens/{second.id}/revoke", data={"leave": "1"}, headers=PART)
    assert leaves.headers["HX-Redirect"] == "/api-tokens"


def test_the_list_is_the_person_s_own(browse, cast):
    made(cast, "owner", name="of the owner")
    made(cast, "member", name="of the member")
    made(cast, "owner", maker=cast.member, name="of old times")
    owner, member, viewer = (browse(who).get("/api-tokens").text for who in ("owner", "member", "viewer"))
    assert ["of the owner" in owner, "of the member" in owner, "of old times" in owner] == [True, False, True]
    assert ["of the owner" in member, "of the member" in member, "of old times" in member] == [False, True, True]
    assert "By a member" in owner
    assert "As the owner" in member
    assert "api_tokens.manage" in viewer
    assert "of " not in re.sub(r"(?s).*<tbody>(.*)</tbody>.*", r"\1", viewer)


def test_a_member_needs_the_permission_to_make_tokens(browse, cast):
    """IDT-43"""
    for method in ("GET", "POST"):
        answer = browse("viewer").open("/api-tokens/new", method=method)
        assert answer.status_code == 403
        assert "api_tokens.manage" in answer.text
    assert browse("member").post("/api-tokens/new", data={"name": "m", "scopes": "metrics:read"}).status_code == 303
    assert newest().account_id == cast.member.id


def test_a_list_costs_the_same_however_long_it_is(browse, cast, queries):
    counts = []
    for _ in range(2):
        for _ in range(3):
            made(cast, maker=cast.member)
        browser = browse("owner")
        queries.clear()
        browser.get("/api-tokens")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def tried(browser, value, request="GET /api/instances", address="203.0.113.7"):
    answer = browser.post("/api-tokens/test", data={"token": value, "request": request, "address": address})
    return answer.text


def test_a_token_is_explained(browse, cast):
    """Ask 22: all that stands in the way, in the words of the check itself."""
    browser = browse("owner")
    _, value = made(cast, scopes=["metrics:read"], allowed_ips=["10.0.0.0/8"])
    text = tried(browser, value)
    assert "This request would be refused" in text
    assert "The token may not be used from this address." in text
    assert "it needs instances:read" in text
    assert "owner@example.com" in text
    assert "This request would be served" in tried(browser, value, "GET /api/connect", "10.1.2.3")
    assert value not in browser.get("/api-tokens/test").text


def test_a_member_s_token_is_explained_to_the_member(browse, cast):
    member = session.scalar(select(Member).where(Member.account_id == cast.member.id))
    member.role.permissions = ["instances.view"]
    _, value = made(cast, "member")
    assert "it needs instances.create" in tried(browse("member"), value, "POST /api/cloud-service/instances")
    assert "This request would be served" in tried(browse("member"), value, "get /api/instance/{id}")


def test_tokens_that_are_over_are_explained(browse, cast):
    token, value = made(cast, expires_at=clock.now())
    assert "The token is expired." in tried(browse("owner"), value)
    token.expires_at, token.enabled = None, False
    session.commit()
    assert "The token is off." in tried(browse("owner"), value)


def test_nothing_is_told_of_other_people_s_tokens(browse, cast):
    _, value = made(cast, "outsider", name="secret name")
    for shown in (value, cast.tokens["admin"], cast.tokens["member"], "pu_" + "x" * 43):
        text = tried(browse("owner"), shown)
        assert "This is no valid token of this account." in text
        assert "secret name" not in text
    for odd in ("GET /nothing", "GET", "DANCE /api/instances", "GET /api/v1/users", "GET /api-tokens"):
        assert "There is no such operation of the user API." in tried(browse("owner"), cast.tokens["owner"], odd)
    assert "Not a valid IP address." in tried(browse("owner"), cast.tokens["owner"], address="x")


def test_pages_are_well_formed(browse, cast):
    token, value = made(cast, name="<b>&'\"")
    browser = browse("owner")
    tested = browser.post("/api-tokens/test", data={"token": value, "request": "GET /api/vpcs", "address": "::1"})
    pages = [
        browser.get(at) for at in ("/api-tokens", "/api-tokens/new", "/api-tokens/test", f"/api-tokens/{token.id}")
    ]
    for answer in (*pages, tested):
        assert answer.status_code in (200, 404, 422)
        outline = Outline(answer.text)
        assert outline.open == []
        assert len(outline.ids) == len(set(outline.ids))
        assert "<b>&" not in answer.text


def test_the_form_offers_the_scopes_that_an_operation_needs(browse):
    """Finding M6: families without an operation were offered; the API accepts all 26."""
    page = browse("owner").get("/api-tokens/new").text
    shown = set(re.findall(r'name="scopes" value="(\w+:\w+)"', page))
    assert shown == permissions_in_use.used_scopes()
    assert "kubernetes:read" not in shown
