"""An instance that is given to another account: what goes along, what stays behind, and what has to be taken off."""

from datetime import UTC, datetime, timedelta

import pytest

from panel.core import clock
from panel.core.db import new_id, session
from panel.models import AuditEntry, Grant, Image, Instance, Iso, Member, Rescue, UsageHour, UsageMonth, Volume
from panel.services import instances, projects, security_groups, settings, snapshots, usage, volume_plans
from panel.services.instances import ownership
from tests.test_pages import PART, Outline
from worker.tasks import usage as counting

START = datetime(2031, 1, 20, 22, 15, tzinfo=UTC)


@pytest.fixture
def machine(cast, work):
    made = cast.instance(display_name="Shop")
    instances.deploy(made, image_id=cast.image.id, actor="test")
    instances.set_tags(made, ["prod"])
    session.commit()
    work()
    return made


@pytest.fixture
def assign(as_, machine, cast):
    def call(account=None):
        body = {"user_id": (account or cast.outsider).id}
        return as_("admin", "POST", f"/api/v1/instance/{machine.id}/assign-user", json=body)

    return call


def refused(answer, machine, cast):
    """The reason of a refusal, which changes nothing."""
    assert answer.status_code == 409, answer.text
    assert session.get(Instance, machine.id).account_id == cast.owner.id
    return answer.json["reason"]


def test_the_machine_is_the_new_owners_with_all_that_is_its_own(as_, assign, machine, cast):
    before = as_("owner", "GET", f"/api/instance/{machine.id}").json
    answer = assign()
    assert (answer.status_code, answer.json["data"]["owner"]) == (200, "outsider@example.com")
    assert as_("owner", "GET", f"/api/instance/{machine.id}").status_code == 404
    after = as_("outsider", "GET", f"/api/instance/{machine.id}").json
    assert [(key, after[key]) for key in ("name", "tags", "state")] == [
        (key, before[key]) for key in ("name", "tags", "state")
    ]
    assert as_("outsider", "POST", f"/api/instance/{machine.id}/power/restart").status_code == 200


def test_the_other_route_says_the_same(as_, machine, cast):
    for _ in range(2):
        answer = as_("admin", "PUT", f"/api/v1/instance/{machine.id}/modify/user/{cast.outsider.id}")
        assert (answer.status_code, answer.json["data"]["owner"]) == (200, "outsider@example.com")
    assert session.query(AuditEntry).filter_by(object_type="instance", object_id=machine.id).count() == 1


def test_what_was_told_until_now_stays_the_earlier_owners(as_, assign, machine):
    assign()
    assert as_("outsider", "GET", "/api/tasks").json["data"] == []
    assert as_("owner", "GET", "/api/tasks").json["data"] != []


def test_project_and_grants_stay_behind(assign, machine, cast):
    machine.project_id = projects.create(cast.owner, name="shop").id
    member = session.query(Member).filter_by(account_id=cast.member.id).one()
    session.add(Grant(member_id=member.id, resource_id=machine.id, resource_type="instance"))
    session.commit()
    assert assign().status_code == 200
    row = session.get(Instance, machine.id)
    assert (row.project_id, session.query(Grant).filter_by(resource_id=machine.id).count()) == (None, 0)


def test_snapshots_and_the_platforms_groups_go_along(as_, assign, machine, cast, work):
    group = security_groups.create(None, name="platform")
    security_groups.attach(group, [machine.id], actor="test")
    snapshots.create(machine, snapname="before", actor="test")
    session.commit()
    work()
    assert assign().status_code == 200
    found = as_("outsider", "GET", f"/api/instance/{machine.id}/snapshots").json["snapshots"]
    assert [each["name"] for each in found] == ["before"]
    assert [group.id] == [each.id for each, inside in security_groups.belonging(machine, cast.outsider) if inside]


def test_a_captured_image_stays_with_who_made_it(assign, machine, cast):
    own = Image(
        name="golden",
        label="golden",
        distro="Debian",
        version="12",
        purpose="user",
        public=False,
        status="available",
        account_id=cast.owner.id,
        instance_id=machine.id,
    )
    session.add(own)
    machine.image = own
    session.commit()
    assert assign().status_code == 200
    assert (session.get(Image, own.id).account_id, session.get(Image, own.id).instance_id) == (cast.owner.id, None)
    assert session.get(Instance, machine.id).image is None


def test_what_cannot_go_along_is_named(assign, machine, cast):
    group = security_groups.create(cast.owner, name="web servers")
    security_groups.attach(group, [machine.id], actor="test")
    session.commit()
    answer = assign()
    assert refused(answer, machine, cast) == "has_security_groups"
    assert "web servers" in answer.json["message"]
    security_groups.detach(group, [machine.id], actor="test")
    machine.iso = Iso(name="mine", filename="a.iso", url="https://example.com/a.iso", account_id=cast.owner.id)
    session.commit()
    assert refused(assign(), machine, cast) == "has_media"
    machine.iso = None
    session.add(Rescue(instance_id=machine.id, since=clock.now(), password="x"))
    session.commit()
    assert refused(assign(), machine, cast) == "rescue_active"
    session.delete(session.get(Rescue, machine.id))
    plan = volume_plans.create(volume_plans.create_group(name="ssd"), name="small", size=1, price=1)
    volume = Volume(
        name="data",
        account_id=cast.owner.id,
        group=machine.group,
        plan=plan,
        on=machine.disks[0].on,
        disk_name="v1",
        size=1,
        instance=machine,
        status="attached",
    )
    session.add(volume)
    session.commit()
    assert refused(assign(), machine, cast) == "has_volumes"


def test_not_while_a_task_is_at_it(as_, assign, machine, cast, work):
    as_("owner", "POST", f"/api/instance/{machine.id}/reinstall", json={"image_id": cast.image.id})
    assert refused(assign(), machine, cast) == "task_running"
    work()
    assert assign().status_code == 200


def test_to_whom_it_cannot_be_given(as_, assign, machine, cast):
    cast.outsider.suspended_at = clock.now()
    session.commit()
    for account in (cast.member, cast.outsider):
        assert assign(account).json["errors"].keys() == {"user_id"}
    unknown = as_("admin", "POST", f"/api/v1/instance/{machine.id}/assign-user", json={"user_id": new_id()})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"user_id"})
    assert as_("admin", "PUT", f"/api/v1/instance/{machine.id}/modify/user/{new_id()}").status_code == 404
    assert session.get(Instance, machine.id).account_id == cast.owner.id


def test_each_pays_for_the_own_hours(as_, cast, monkeypatch):
    """The hour under way is the earlier owner's; both have a line of the same month; no hour counts twice."""
    settings.update({"billing_enabled": True})
    now = START
    monkeypatch.setattr(clock, "now", lambda: now)
    made = cast.instance()
    now = START + timedelta(hours=2)
    assert ownership.assign(session.get(Instance, made.id), cast.outsider)
    session.commit()
    now = START + timedelta(hours=5)
    counting.count()
    hours = {
        account.email: session.query(UsageHour).filter_by(resource_id=made.id, account_id=account.id).count()
        for account in (cast.owner, cast.outsider)
    }
    assert hours == {"owner@example.com": 3, "outsider@example.com": 2}
    assert session.query(UsageMonth).filter_by(resource_id=made.id, month="2031-01").count() == 2
    usage.end(made)
    session.commit()
    now = START + timedelta(hours=9)
    counting.count()
    assert session.query(UsageHour).filter_by(resource_id=made.id).count() == 6


def test_an_operator_gives_it_away_on_the_page(browse, machine, cast):
    operator, place = browse("admin"), f"/admin/instances/{machine.id}"
    page = operator.get(f"{place}/settings")
    assert Outline(page.text).open == []
    assert f'action="{place}/owner"' in page.text
    for wrong in ("nobody@example.com", "member@example.com", ""):
        answer = operator.post(f"{place}/owner", data={"owner": wrong}, headers=PART)
        assert ('id="wrong-owner"' in answer.text, "<html" in answer.text) == (True, False), wrong
    assert operator.post(f"{place}/owner", data={"owner": "outsider@example.com"}).status_code == 303
    assert session.get(Instance, machine.id).account_id == cast.outsider.id
    assert browse("owner").get(f"/instances/{machine.id}").status_code == 404
    assert browse("outsider").get(f"/instances/{machine.id}").status_code == 200
    assert browse("owner").post(f"{place}/owner", data={"owner": "owner@example.com"}).status_code == 403
