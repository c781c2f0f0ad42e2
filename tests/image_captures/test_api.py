"""Images that customers capture from their instances."""

import pytest

from panel.core import context
from panel.core.db import session
from panel.models import Image, Instance, Task
from panel.services import image_captures


@pytest.fixture
def instance(api_as, cast, run_tasks):
    """A deployed, stopped instance of the owner."""
    created_instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{created_instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{created_instance.id}/power/poweroff")
    run_tasks()
    return session.get(Instance, created_instance.id)


@pytest.fixture
def capture_image(api_as, instance):
    def post(caller="owner", **fields):
        return api_as(caller, "POST", "/api/images", json={"instance_id": instance.id, "name": "golden", **fields})

    return post


def list_image_files(image):
    return [path.name for path in (context.current().config.data_dir / "images").glob(f"{image}*")]


def test_captured_image_is_listed_deployed_and_deleted(api_as, cast, capture_image, node, instance, run_tasks):
    answer = capture_image()
    assert answer.status_code == 200
    image = answer.json["image"]
    assert (image["status"], image["name"], image["instance_id"]) == ("creating", "golden", instance.id)
    [row] = api_as("owner", "GET", "/api/images").json["data"]
    assert row == image
    assert api_as("owner", "GET", "/api/images/search?search=golden").json["results"] == []
    run_tasks()
    row = api_as("owner", "GET", f"/api/image/{image['id']}").json["image"]
    assert (row["status"], row["cloudinit"], row["type"], row["purpose"]) == ("available", True, "linux", "user")
    assert row["size"] > 0
    assert row["min_disk"] == instance.storage
    assert len(list_image_files(image["id"])) == 1
    assert not [disk for disk in node.disks("default") if disk.name.startswith("capture-")]
    other = cast.instance()
    assert (
        api_as("owner", "POST", f"/api/instance/{other.id}/deploy", json={"image_id": image["id"]}).status_code == 200
    )
    run_tasks()
    assert session.get(Instance, other.id).state == "running"
    assert api_as("admin", "GET", f"/api/v1/image/{image['id']}").json["data"]["user_id"] == cast.owner.id
    assert api_as("owner", "DELETE", f"/api/image/{image['id']}").status_code == 200
    assert api_as("owner", "GET", "/api/images").json["data"] == []
    run_tasks()
    assert list_image_files(image["id"]) == []
    assert session.get(Instance, other.id).state == "running"
    copy = session.query(Task).filter(Task.kind == "image_delete", Task.hypervisor_id.is_not(None)).one()
    assert copy.status == "completed"
    assert any("based on" in line.message for line in copy.logs), "the copy is kept, because a disk is based on it"


def test_image_delete_removes_unused_copy_from_node(api_as, cast, capture_image, node, instance, run_tasks):
    image = capture_image().json["image"]["id"]
    run_tasks()
    other = cast.instance()
    api_as("owner", "POST", f"/api/instance/{other.id}/deploy", json={"image_id": image})
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{other.id}")
    run_tasks()
    name = f"{session.get(Image, image).sha256[:32]}.qcow2"
    assert name in [disk.name for disk in node.disks("default")]
    api_as("owner", "DELETE", f"/api/image/{image}")
    run_tasks()
    assert name not in [disk.name for disk in node.disks("default")]


@pytest.mark.parametrize("value", [True, 1, "1", "true"])
def test_cloudinit_accepts_true_values(capture_image, value):
    assert capture_image(cloudinit=value, type="other").json["image"]["cloudinit"] is True


@pytest.mark.parametrize("value", [False, 0, "0", "false"])
def test_cloudinit_accepts_false_values(capture_image, value):
    assert capture_image(cloudinit=value).json["image"]["cloudinit"] is False


def test_capture_refuses_invalid_requests(api_as, cast, capture_image, instance, run_tasks, monkeypatch):
    for body, field in (
        ({"cloudinit": "maybe"}, "cloudinit"),
        ({"type": "mac"}, "type"),
        ({"name": ""}, "name"),
        ({"instance_id": "x"}, "instance_id"),
        ({"instance_id": cast.instance("outsider").id}, "instance_id"),
    ):
        answer = capture_image(**body)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {field})
    assert capture_image(instance_id=cast.instance().id).json["reason"] == "not_deployed"
    session.get(Instance, instance.id).suspended_reason = "admin"
    session.commit()
    assert capture_image().json["reason"] == "suspended"
    session.get(Instance, instance.id).suspended_reason = None
    session.commit()
    monkeypatch.setattr(image_captures, "MAX_CAPTURED_IMAGES", 1)
    assert capture_image().status_code == 200
    assert (capture_image().status_code, capture_image().json["reason"]) == (422, "limit_reached")


def test_captured_image_of_other_account_is_not_found(api_as, capture_image):
    image = capture_image().json["image"]["id"]
    assert api_as("outsider", "GET", "/api/images").json["data"] == []
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert api_as("outsider", method, f"/api/image/{image}", json=body).status_code == 404


def test_captured_image_is_renamed(api_as, capture_image):
    image = capture_image().json["image"]["id"]
    answer = api_as("owner", "PATCH", f"/api/image/{image}", json={"name": "silver"})
    assert (answer.json["image"]["name"], answer.json["image"]["label"]) == ("silver", "silver")
    assert api_as("owner", "PATCH", f"/api/image/{image}", json={"size": 1}).status_code == 422


def test_captured_images_may_share_name(capture_image):
    assert [capture_image().status_code for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("step", ["power", "copy_disk", "read_disk", "delete_disk"])
@pytest.mark.parametrize("kind", ["refuse", "silent"])
def test_failed_capture_leaves_no_files(api_as, capture_image, node, run_tasks, step, kind):
    image = capture_image().json["image"]["id"]
    node.fault(step, kind, count=1)
    run_tasks()
    assert api_as("owner", "GET", f"/api/image/{image}").json["image"]["status"] == "error"
    assert list_image_files(image) == []
    folder = context.current().config.data_dir / "images"
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]
    assert api_as("owner", "DELETE", f"/api/image/{image}").status_code == 200
    node.clear()
    task = session.query(Task).filter_by(kind="image_capture").one()
    from tests.support.task_queue import queued_calls

    queued_calls.append(("worker.engine.runner.run", (task.id,)))
    run_tasks()
    assert not [disk for disk in node.disks("default") if disk.name.startswith("capture-")]


def test_image_deleted_during_capture_leaves_nothing(api_as, capture_image, node, run_tasks):
    image = capture_image().json["image"]["id"]
    api_as("owner", "DELETE", f"/api/image/{image}")
    run_tasks()
    assert session.query(Image).filter_by(id=image).count() == 0
    assert list_image_files(image) == []
    assert not [disk for disk in node.disks("default") if disk.name.startswith("capture-")]


def test_captured_image_list_has_constant_query_count(api_as, cast, queries):
    def count_queries():
        queries.clear()
        api_as("owner", "GET", "/api/images")
        return len(queries)

    def add(count):
        for number in range(count):
            facts = {"label": "x", "distro": "x", "version": "1", "purpose": "user", "account_id": cast.owner.id}
            session.add(Image(name=f"{number}", **facts))
        session.commit()

    add(1)
    few = count_queries()
    add(30)
    assert count_queries() == few
