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
