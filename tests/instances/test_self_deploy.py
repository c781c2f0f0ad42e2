"""Self-deploy: installing from an ISO, and creating an instance that boots one."""

import pytest

from panel.core.db import session
from panel.models import Instance, MediaDownload, Task
from panel.services import isos

SELF_DEPLOY_PATHS = {"owner": "/api/instance/{}/self-deploy", "admin": "/api/v1/instance/{}/selfdeploy"}


@pytest.fixture
def iso(file_server):
    created_iso = isos.create(url=file_server.put(), actor="test")
    session.commit()
    return created_iso


@pytest.fixture
def post_self_deploy(api_as):
    def post(instance, caller="owner", **body):
        return api_as(caller, "POST", SELF_DEPLOY_PATHS[caller].format(instance.id), json=body)

    return post


def get_task(answer):
    return session.get(Task, (answer.json.get("data") or answer.json)["task_id"])


@pytest.mark.parametrize("field", ["iso_id", "image_id"])
@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_self_deploy_boots_iso_with_blank_disk(api_as, cast, post_self_deploy, node, iso, run_tasks, caller, field):
    """ENV-26"""
    instance = cast.instance()
    answer = post_self_deploy(instance, caller, **{field: iso.id, "hostname": "mine.example.com"})
    assert answer.status_code == 200
    assert (answer.json["data"] if caller == "admin" else answer.json)["task_id"]
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"] == "pending"
    run_tasks()
    assert get_task(answer).status == "completed"
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["iso_id"], shown["boot"]) == ("running", iso.id, "cdrom,disk")
    assert (shown["hostname"], shown["image_id"]) == ("mine.example.com", None)
    assert node.get_loaded_media(instance.id, "primary") == session.query(MediaDownload).one().volume
    [system] = node.list_booted_disks(instance.id)
    assert node.state.rows("SELECT parent FROM disks WHERE name = ?", system)[0][0] is None


def test_self_deploy_erases_disk_only_after_iso_download(
    api_as, cast, post_self_deploy, node, iso, file_server, run_tasks
):
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    file_server.files["/disc.iso"] = 404
    run_tasks()
    answer = post_self_deploy(instance, iso_id=iso.id)
    run_tasks()
    assert (get_task(answer).status, "404" in get_task(answer).error) == ("failed", True)
    row = session.get(Instance, instance.id)
    assert (row.state, row.image_id) == ("running", cast.image.id)
    file_server.put()
    answer = post_self_deploy(instance, iso_id=iso.id)
    run_tasks()
    assert get_task(answer).status == "completed"
    row = session.get(Instance, instance.id)
    assert (row.state, row.image_id, row.last_error) == ("running", None, None)


@pytest.mark.parametrize("step", ["create_disk", "create_seed", "define", "start"])
def test_failed_self_deploy_can_be_retried(cast, post_self_deploy, node, iso, run_tasks, step):
    instance = cast.instance()
    run_tasks()
    node.fault(step, "refuse", count=1)
    answer = post_self_deploy(instance, iso_id=iso.id)
    run_tasks()
    assert get_task(answer).status == "failed"
    assert session.get(Instance, instance.id).last_error
    assert not [disk for disk in node.disks("default") if disk.name.startswith(instance.name)]
    post_self_deploy(instance, iso_id=iso.id)
    run_tasks()
    assert session.get(Instance, instance.id).state == "running"


def test_self_deploy_refusals(api_as, cast, post_self_deploy, iso, file_server, run_tasks):
    instance = cast.instance()
    foreign = isos.create(cast.outsider, url=file_server.url("/foreign.iso"), actor="test")
    session.commit()
    for body, field in (({}, "iso_id"), ({"iso_id": foreign.id}, "iso_id"), ({"image_id": cast.image.id}, "image_id")):
        answer = post_self_deploy(instance, **body)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {field}), body
    assert post_self_deploy(instance, "admin", iso_id="x" * 36).status_code == 422
    for caller in ("owner", "admin"):  # the message says what to do instead
        [sentence] = post_self_deploy(instance, caller, image_id=cast.image.id).json["errors"]["image_id"]
        assert "not an ISO" in sentence
    for change, reason in (
        ({"protection_enabled": True}, "protection_enabled"),
        ({"suspended_reason": "admin"}, "suspended"),
        ({"migrating": True}, "task_running"),
    ):
        for name, value in change.items():
            setattr(session.get(Instance, instance.id), name, value)
        session.commit()
        answer = post_self_deploy(instance, iso_id=iso.id)
        assert (answer.status_code, answer.json["reason"]) == (409, reason)
        for name in change:
            setattr(session.get(Instance, instance.id), name, None if name == "suspended_reason" else False)
        session.commit()
    post_self_deploy(instance, iso_id=iso.id)
    answer = post_self_deploy(instance, iso_id=iso.id)
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")
    assert (
        api_as("outsider", "POST", SELF_DEPLOY_PATHS["owner"].format(instance.id), json={"iso_id": iso.id}).status_code
        == 404
    )


def test_admin_create_with_iso_enables_vnc(api_as, cast, iso):
    """INS-76, INS-77, INS-78"""
    body = {"user_id": cast.owner.id, "location_id": cast.location.id, "plan_id": cast.plan.id}

    def create_instance(**fields):
        return api_as("admin", "POST", "/api/v1/instances", json={**body, **fields})

    assert create_instance().json["data"]["enable_vnc"] is False
    instance = create_instance(iso_id=iso.id).json["data"]
    assert (instance["enable_vnc"], instance["iso_id"], instance["boot"]) == (True, iso.id, "cdrom,disk")
    assert create_instance(iso_id=iso.id, enable_vnc=False).json["data"]["enable_vnc"] is False
    assert create_instance(enable_vnc=True).json["data"]["enable_vnc"] is True
    for wrong in ("true", "false", 1, 0):
        assert create_instance(iso_id=iso.id, enable_vnc=wrong).json["errors"].keys() == {"enable_vnc"}
    assert create_instance(iso_id="0199c0a8-0000-7000-8000-000000000000").json["errors"].keys() == {"iso_id"}
