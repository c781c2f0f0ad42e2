"""The page of grants for a location."""

from panel.core.db import session
from panel.models import HypervisorGroup, LocationGrant
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline


def test_location_access_page_close_grant_revoke_and_open(browser_as, cast):
    operator, place = browser_as("admin"), f"/admin/locations/{cast.location.id}/access"
    cast.instance("outsider")
    assert f'href="{place}"' in operator.get(f"/admin/locations/{cast.location.id}").text
    page = operator.get(place)
    outline = HtmlOutline(page.text)
    assert (page.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    assert "2 customers without a grant" in page.text
    assert "1 instance" in page.text
    operator.post(f"{place}/close")
    assert session.get(HypervisorGroup, cast.location.id).public is False
    assert "restricted access" in operator.get("/admin/locations").text
    assert "Laboratory" not in browser_as("owner").get("/instances/new").text
    refused = operator.post(f"{place}/grant", data={"owner": "nobody@example.com"}, headers=PARTIAL_HEADERS)
    assert ('id="wrong-owner"' in refused.text, "<html" in refused.text) == (True, False)
    assert operator.post(f"{place}/grant", data={"owner": "member@example.com"}).status_code == 422
    operator.post(f"{place}/grant", data={"owner": "owner@example.com"})
    assert "owner@example.com" in operator.get(place).text
    assert "No matching grants" in operator.get(f"{place}?search=zzz").text
    assert "Laboratory" in browser_as("owner").get("/instances/new").text
    assert "Laboratory" not in browser_as("outsider").get("/instances/new").text
    operator.post(f"{place}/{cast.owner.id}/revoke")
    assert session.query(LocationGrant).count() == 0
    operator.post(f"{place}/open")
    assert "Laboratory" in browser_as("outsider").get("/instances/new").text


def test_support_operator_cannot_change_access(browser_as, cast):
    cast.admin.operator_role = "support"
    session.commit()
    operator, place = browser_as("admin"), f"/admin/locations/{cast.location.id}/access"
    assert "admin:hypervisors:write" in operator.get(place).text
    for action in ("open", "close", "grant", f"{cast.owner.id}/revoke"):
        assert operator.post(f"{place}/{action}", data={"owner": "owner@example.com"}).status_code == 403
