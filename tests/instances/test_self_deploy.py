"""Installing from an ISO by oneself, and creating an instance that boots one."""

import pytest

from panel.core.db import session
from panel.models import Instance, MediaDownload, Task
from panel.services import isos

PATHS = {"owner": "/api/instance/{}/self-deploy", "admin": "/api/v1/instance/{}/selfdeploy"}


@pytest.fixture
def iso(file_server):
    made = isos.create(url=file_server.put(), actor="test")
    session.commit()
    return made


@pytest.fixture
def install(api_as):
    def ask(instance, who="owner", **body):
        return api_as(who, "POST", PATHS[who].format(instance.id), json=body)

    return ask


def task_of(answer):
    return session.get(Task, (answer.json.get("data") or answer.json)["task_id"])


@pytest.mark.parametrize("field", ["iso_id", "image_id"])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_an_undeployed_instance_boots_the_iso_with_a_blank_disk(
    api_as, cast, install, node, iso, run_tasks, who, field
):
    """ENV-26"""
    instance = cast.instance()
    answer = install(instance, who, **{field: iso.id, "hostname": "mine.example.com"})
    assert answer.status_code == 200
    assert (answer.json["data"] if who == "admin" else answer.json)["task_id"]
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"] == "pending"
    run_tasks()
    assert task_of(answer).status == "completed"
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["iso_id"], shown["boot"]) == ("running", iso.id, "cdrom,disk")
    assert (shown["hostname"], shown["image_id"]) == ("mine.example.com", None)
    assert node.loaded_media(instance.id, "primary") == session.query(MediaDownload).one().volume
    [system] = node.booted_disks(instance.id)
    assert node.state.rows("SELECT parent FROM disks WHERE name = ?", system)[0][0] is None


def test_a_deployed_one_is_emptied_but_not_before_the_iso_is_there(
    api_as, cast, install, node, iso, file_server, run_tasks
):
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    file_server.files["/disc.iso"] = 404
    run_tasks()
    answer = install(instance, iso_id=iso.id)
    run_tasks()
    assert (task_of(answer).status, "404" in task_of(answer).error) == ("failed", True)
    row = session.get(Instance, instance.id)
    assert (row.state, row.image_id) == ("running", cast.image.id)
    file_server.put()
    answer = install(instance, iso_id=iso.id)
    run_tasks()
    assert task_of(answer).status == "completed"
    row = session.get(Instance, instance.id)
    assert (row.state, row.image_id, row.last_error) == ("running", None, None)


@pytest.mark.parametrize("step", ["create_disk", "create_seed", "define", "start"])
def test_after_a_failure_it_can_be_tried_again(cast, install, node, iso, run_tasks, step):
    instance = cast.instance()
    run_tasks()
    node.fault(step, "refuse", count=1)
    answer = install(instance, iso_id=iso.id)
    run_tasks()
    assert task_of(answer).status == "failed"
    assert session.get(Instance, instance.id).last_error
    assert not [disk for disk in node.disks("default") if disk.name.startswith(instance.name)]
    install(instance, iso_id=iso.id)
    run_tasks()
    assert session.get(Instance, instance.id).state == "running"


def test_self_deploy_refusals(api_as, cast, install, iso, file_server, run_tasks):
    instance = cast.instance()
    foreign = isos.create(cast.outsider, url=file_server.url("/foreign.iso"), actor="test")
    session.commit()
    for body, field in (({}, "iso_id"), ({"iso_id": foreign.id}, "iso_id"), ({"image_id": cast.image.id}, "image_id")):
        answer = install(instance, **body)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {field}), body
    assert install(instance, "admin", iso_id="x" * 36).status_code == 422
    for who in ("owner", "admin"):  # acceptance C6: the sentence says what to do instead
        [sentence] = install(instance, who, image_id=cast.image.id).json["errors"]["image_id"]
        assert "Only an ISO can be booted here" in sentence
    for change, reason in (
        ({"protection_enabled": True}, "protection_enabled"),
        ({"suspended_reason": "admin"}, "suspended"),
        ({"migrating": True}, "task_running"),
    ):
        for name, value in change.items():
            setattr(session.get(Instance, instance.id), name, value)
        session.commit()
        answer = install(instance, iso_id=iso.id)
        assert (answer.status_code, answer.json["reason"]) == (409, reason)
        for name in change:
            setattr(session.get(Instance, instance.id), name, None if name == "suspended_reason" else False)
        session.commit()
    install(instance, iso_id=iso.id)
    answer = install(instance, iso_id=iso.id)
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")
    assert api_as("outsider", "POST", PATHS["owner"].format(instance.id), json={"iso_id": iso.id}).status_code == 404


def test_the_screen_of_an_operator_s_instance_is_on_if_it_boots_an_iso(api_as, cast, iso):
    """INS-76, INS-77, INS-78"""
    wanted = {"user_id": cast.owner.id, "location_id": cast.location.id, "plan_id": cast.plan.id}

    def created(**more):
        return api_as("admin", "POST", "/api/v1/instances", json={**wanted, **more})

    assert created().json["data"]["enable_vnc"] is False
    made = created(iso_id=iso.id).json["data"]
    assert (made["enable_vnc"], made["iso_id"], made["boot"]) == (True, iso.id, "cdrom,disk")
    assert created(iso_id=iso.id, enable_vnc=False).json["data"]["enable_vnc"] is False
    assert created(enable_vnc=True).json["data"]["enable_vnc"] is True
    for wrong in ("true", "false", 1, 0):
        assert created(iso_id=iso.id, enable_vnc=wrong).json["errors"].keys() == {"enable_vnc"}
    assert created(iso_id="0199c0a8-0000-7000-8000-000000000000").json["errors"].keys() == {"iso_id"}
