"""Team members who may use chosen resources only."""

from panel.core.db import session
from panel.models import Member
from tests.support.team import add_member  # noqa: F401  (fixture)

PERMISSIONS = ["microvm.view", "microvm.manage", "microvm.delete"]


def test_restricted_member_reaches_only_own_microvms(call_api, create_microvm, microvm_body, add_member, api_as):
    """MVM-11"""
    of_owner = create_microvm()
    for caller, reach in (("chooser", "chosen"), ("sorter", "projects")):
        member = add_member(caller, PERMISSIONS, reach)
        assert call_api("GET", "vms", caller).json["total"] == 0
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause")):
            assert call_api(method, f"vm/{of_owner.id}{path}", caller).status_code == 404
        created = call_api("POST", "vms", caller, **microvm_body).json["vm"]["id"]
        assert call_api("GET", f"vm/{created}", caller).status_code == 200
        assert {grant.resource_type for grant in session.get(Member, member.id).grants} == {"microvm"}


def test_restricted_member_creates_no_sandbox_key(call_api, add_member):
    add_member("chooser", PERMISSIONS, "chosen")
    answer = call_api("POST", "api-keys", "chooser", name="all")
    assert answer.status_code == 403
    assert "chosen resources only" in answer.json["message"]


def test_owner_chooses_micro_vms_for_a_member(call_api, create_microvm, microvm_body, add_member, api_as, run_tasks):
    """MVM-11"""
    chosen, other = create_microvm(), create_microvm()
    foreign = call_api("POST", "vms", "outsider", **microvm_body).json["vm"]["id"]
    member = add_member("chooser", PERMISSIONS, "chosen")
    path = f"/api/team/subuser/{member.id}/role"
    for ids in ([chosen.id, foreign], ["unknown"]):
        refused = api_as("owner", "PATCH", path, json={"reach": "chosen", "resource_ids": ids})
        assert (refused.status_code, list(refused.json["errors"])) == (422, ["resource_ids"])
    answer = api_as("owner", "PATCH", path, json={"reach": "chosen", "resource_ids": [chosen.id]})
    assert (answer.status_code, answer.json["subuser"]["resource_ids"]) == (200, [chosen.id])
    assert [row["id"] for row in call_api("GET", "vms", "chooser").json["data"]] == [chosen.id]
    assert call_api("GET", f"vm/{other.id}", "chooser").status_code == 404
    own = call_api("POST", "vms", "chooser", **microvm_body).json["vm"]["id"]
    body = {"reach": "chosen", "resource_ids": [chosen.id, own]}
    assert api_as("owner", "PATCH", path, json=body).status_code == 200, "what was created can be sent again"
    call_api("DELETE", f"vm/{chosen.id}")
    run_tasks()
    assert session.get(Member, member.id, populate_existing=True).resource_ids == [own]


def test_member_grants_no_micro_vm_beyond_own_reach(call_api, create_microvm, add_member, api_as):
    reached, hidden = create_microvm(), create_microvm()
    permissions = [*PERMISSIONS, "team.manage", "account.view"]
    head = add_member("head", permissions, "chosen")
    lower = add_member("lower", PERMISSIONS, "chosen")
    body = {"reach": "chosen", "resource_ids": [reached.id]}
    assert api_as("owner", "PATCH", f"/api/team/subuser/{head.id}/role", json=body).status_code == 200
    path = f"/api/team/subuser/{lower.id}/role"
    refused = api_as("head", "PATCH", path, json={"reach": "chosen", "resource_ids": [hidden.id]})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["resource_ids"])
    assert api_as("head", "PATCH", path, json=body).status_code == 200
    both = {"reach": "chosen", "resource_ids": [reached.id, hidden.id]}
    assert api_as("owner", "PATCH", path, json=both).status_code == 200
    assert api_as("head", "PATCH", path, json=body).status_code == 403, "the member now reaches more"


def test_team_page_offers_micro_vms(browser_as, create_microvm, add_member):
    microvm, ended = create_microvm(name="shop"), create_microvm(name="ended one")
    ended.ended_at = ended.started_at
    member = add_member("chooser", PERMISSIONS, "chosen")
    browser, path = browser_as("owner"), f"/team/members/{member.id}"
    for page in (browser.get(path).text, browser.get("/team/invite").text):
        assert f'name="resource_ids" value="{microvm.id}"' in page
        assert f'value="{ended.id}"' not in page
    sent = {"role_id": member.role_id, "reach": "chosen", "project_ids": "", "resource_ids": ["", microvm.id]}
    assert browser.post(path, data=sent).status_code == 303
    assert session.get(Member, member.id, populate_existing=True).resource_ids == [microvm.id]
    assert f'value="{microvm.id}" checked' in browser.get(path).text
    assert "1 resource" in browser.get("/team").text
