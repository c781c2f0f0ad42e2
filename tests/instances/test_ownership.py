"""Transferring an instance to another account: what moves, what stays, and what must be detached first."""

from datetime import UTC, datetime, timedelta

import pytest

from panel.core import clock
from panel.core.db import generate_id, session
from panel.models import AuditEntry, Image, Instance, Iso, Member, Rescue, ResourceGrant, UsageHour, UsageMonth, Volume
from panel.services import instances, projects, security_groups, settings, snapshots, usage, volume_plans
from panel.services.instances import ownership
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline
from worker.tasks import usage as counting

METERING_START = datetime(2031, 1, 20, 22, 15, tzinfo=UTC)


@pytest.fixture
def machine(cast, run_tasks):
    instance = cast.instance(display_name="Shop")
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    instances.set_tags(instance, ["prod"])
    session.commit()
    run_tasks()
    return instance


@pytest.fixture
def assign_owner(api_as, machine, cast):
    def call(account=None):
        body = {"user_id": (account or cast.outsider).id}
        return api_as("admin", "POST", f"/api/v1/instance/{machine.id}/assign-user", json=body)

    return call


def assert_refused(answer, machine, cast):
    """Check that the transfer changed nothing, and return the reason of the refusal."""
    assert answer.status_code == 409, answer.text
    assert session.get(Instance, machine.id).account_id == cast.owner.id
    return answer.json["reason"]


def test_transfer_gives_machine_to_new_owner(api_as, assign_owner, machine, cast):
    before = api_as("owner", "GET", f"/api/instance/{machine.id}").json
    answer = assign_owner()
    assert (answer.status_code, answer.json["data"]["owner"]) == (200, "outsider@example.com")
    assert api_as("owner", "GET", f"/api/instance/{machine.id}").status_code == 404
    after = api_as("outsider", "GET", f"/api/instance/{machine.id}").json
    assert [(key, after[key]) for key in ("name", "tags", "state")] == [
        (key, before[key]) for key in ("name", "tags", "state")
    ]
    assert api_as("outsider", "POST", f"/api/instance/{machine.id}/power/restart").status_code == 200


def test_transfer_by_modify_user_route_is_idempotent(api_as, machine, cast):
    for _ in range(2):
        answer = api_as("admin", "PUT", f"/api/v1/instance/{machine.id}/modify/user/{cast.outsider.id}")
        assert (answer.status_code, answer.json["data"]["owner"]) == (200, "outsider@example.com")
    assert session.query(AuditEntry).filter_by(object_type="instance", object_id=machine.id).count() == 1


def test_transfer_leaves_earlier_tasks_with_previous_owner(api_as, assign_owner, machine):
    assign_owner()
    assert api_as("outsider", "GET", "/api/tasks").json["data"] == []
    assert api_as("owner", "GET", "/api/tasks").json["data"] != []


def test_transfer_removes_project_and_grants(assign_owner, machine, cast):
    machine.project_id = projects.create(cast.owner, name="shop").id
    member = session.query(Member).filter_by(account_id=cast.member.id).one()
    session.add(ResourceGrant(member_id=member.id, resource_id=machine.id, resource_type="instance"))
    session.commit()
    assert assign_owner().status_code == 200
    row = session.get(Instance, machine.id)
    assert (row.project_id, session.query(ResourceGrant).filter_by(resource_id=machine.id).count()) == (None, 0)


def test_transfer_keeps_snapshots_and_platform_groups(api_as, assign_owner, machine, cast, run_tasks):
    group = security_groups.create(None, name="platform")
    security_groups.attach(group, [machine.id], actor="test")
    snapshots.create(machine, snapname="before", actor="test")
    session.commit()
    run_tasks()
    assert assign_owner().status_code == 200
    listed_snapshots = api_as("outsider", "GET", f"/api/instance/{machine.id}/snapshots").json["snapshots"]
    assert [listed_snapshot["name"] for listed_snapshot in listed_snapshots] == ["before"]
    assert [group.id] == [
        group.id for group, inside in security_groups.list_memberships(machine, cast.outsider) if inside
    ]


def test_transfer_leaves_captured_image_with_previous_owner(assign_owner, machine, cast):
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
    assert assign_owner().status_code == 200
    assert (session.get(Image, own.id).account_id, session.get(Image, own.id).instance_id) == (cast.owner.id, None)
    assert session.get(Instance, machine.id).image is None


def test_transfer_with_attached_resources_is_refused(assign_owner, machine, cast):
    group = security_groups.create(cast.owner, name="web servers")
    security_groups.attach(group, [machine.id], actor="test")
    session.commit()
    answer = assign_owner()
    assert assert_refused(answer, machine, cast) == "has_security_groups"
    assert "web servers" in answer.json["message"]
    security_groups.detach(group, [machine.id], actor="test")
    machine.iso = Iso(name="mine", filename="a.iso", url="https://example.com/a.iso", account_id=cast.owner.id)
    session.commit()
    assert assert_refused(assign_owner(), machine, cast) == "has_media"
    machine.iso = None
    session.add(Rescue(instance_id=machine.id, since=clock.now(), password="x"))
    session.commit()
    assert assert_refused(assign_owner(), machine, cast) == "rescue_active"
    session.delete(session.get(Rescue, machine.id))
    plan = volume_plans.create(volume_plans.create_group(name="ssd"), name="small", size=1, price=1)
    volume = Volume(
        name="data",
        account_id=cast.owner.id,
        group=machine.group,
        plan=plan,
        storage=machine.disks[0].storage,
        disk_name="v1",
        size=1,
        instance=machine,
        status="attached",
    )
    session.add(volume)
    session.commit()
    assert assert_refused(assign_owner(), machine, cast) == "has_volumes"


def test_transfer_during_task_is_refused(api_as, assign_owner, machine, cast, run_tasks):
    api_as("owner", "POST", f"/api/instance/{machine.id}/reinstall", json={"image_id": cast.image.id})
    assert assert_refused(assign_owner(), machine, cast) == "task_running"
    run_tasks()
    assert assign_owner().status_code == 200


def test_transfer_to_invalid_account_is_refused(api_as, assign_owner, machine, cast):
    cast.outsider.suspended_at = clock.now()
    session.commit()
    for account in (cast.member, cast.outsider):
        assert assign_owner(account).json["errors"].keys() == {"user_id"}
    unknown = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/assign-user", json={"user_id": generate_id()})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"user_id"})
    assert api_as("admin", "PUT", f"/api/v1/instance/{machine.id}/modify/user/{generate_id()}").status_code == 404
    assert session.get(Instance, machine.id).account_id == cast.owner.id


def test_ownership_transfer_splits_metered_hours(api_as, cast, monkeypatch):
    """The current hour is the previous owner's; both have a row for the month; no hour counts twice."""
    settings.update({"billing_enabled": True})
    now = METERING_START
    monkeypatch.setattr(clock, "now", lambda: now)
    instance = cast.instance()
    now = METERING_START + timedelta(hours=2)
    assert ownership.assign(session.get(Instance, instance.id), cast.outsider)
    session.commit()
    now = METERING_START + timedelta(hours=5)
    counting.meter_and_post()
    hours = {
        account.email: session.query(UsageHour).filter_by(resource_id=instance.id, account_id=account.id).count()
        for account in (cast.owner, cast.outsider)
    }
    assert hours == {"owner@example.com": 3, "outsider@example.com": 2}
    assert session.query(UsageMonth).filter_by(resource_id=instance.id, month="2031-01").count() == 2
    usage.stop_metering(instance)
    session.commit()
    now = METERING_START + timedelta(hours=9)
    counting.meter_and_post()
    assert session.query(UsageHour).filter_by(resource_id=instance.id).count() == 6


def test_operator_transfers_machine_on_page(browser_as, machine, cast):
    operator, place = browser_as("admin"), f"/admin/instances/{machine.id}"
    page = operator.get(f"{place}/settings")
    assert HtmlOutline(page.text).open == []
    assert f'action="{place}/owner"' in page.text
    for wrong in ("nobody@example.com", "member@example.com", ""):
        answer = operator.post(f"{place}/owner", data={"owner": wrong}, headers=PARTIAL_HEADERS)
        assert ('id="wrong-owner"' in answer.text, "<html" in answer.text) == (True, False), wrong
    assert operator.post(f"{place}/owner", data={"owner": "outsider@example.com"}).status_code == 303
    assert session.get(Instance, machine.id).account_id == cast.outsider.id
    assert browser_as("owner").get(f"/instances/{machine.id}").status_code == 404
    assert browser_as("outsider").get(f"/instances/{machine.id}").status_code == 200
    assert browser_as("owner").post(f"{place}/owner", data={"owner": "owner@example.com"}).status_code == 403
