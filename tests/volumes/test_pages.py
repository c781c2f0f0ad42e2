"""The volume pages without JavaScript."""

from panel.core.db import session
from panel.models import Volume
from panel.services import settings


def test_volume_pages_create_to_delete(browser_as, plans, volume_body, run_tasks, machine, volumes_on_node):
    owner = browser_as("owner")
    assert "No volume yet" in owner.get("/volumes").text
    assert plans["large"].id in owner.get("/volumes/new").text
    wrong = owner.post("/volumes/new", data={"name": "", **volume_body})
    assert (wrong.status_code, "This field is required." in wrong.text or "hort" in wrong.text) == (422, True)
    answer = owner.post("/volumes/new", data={"name": "data", **volume_body})
    assert answer.status_code == 303
    run_tasks()
    path = answer.headers["Location"]
    volume = session.get(Volume, path.rpartition("/")[2])
    assert "Available" in owner.get(path).text
    assert owner.post(f"{path}/attach", data={"instance_id": machine.id}).status_code == 303
    run_tasks()
    assert volume.dev in owner.get(path).text
    assert volume.name in owner.get(f"/instances/{machine.id}/storage").text
    refused = owner.post(f"{path}/attach", data={"instance_id": machine.id})
    assert (refused.status_code, "cannot be attached" in refused.text) == (422, True)
    assert owner.post(f"{path}/resize", data={"volume_plan_id": plans["large"].id}).status_code == 303
    assert owner.post(f"{path}/snapshot", data={"name": "one"}).status_code == 303
    run_tasks()
    assert owner.post(f"{path}/snapshot", data={"name": "one"}).status_code == 422
    assert owner.post(f"{path}/detach").status_code == 303
    run_tasks()
    [snapshot] = volume.snapshots
    assert "one" in owner.get(path).text
    for action in ("restore", "copy", "delete"):
        assert owner.post(f"{path}/snapshot/{snapshot.id}/{action}").status_code == 303
        run_tasks()
    assert "data from one" in owner.get("/volumes").text
    assert owner.post(f"{path}/delete").status_code == 303
    run_tasks()
    assert owner.get(path).status_code == 404
    assert len(volumes_on_node()) == 1


def test_volume_pages_check_permissions(browser_as, volume):
    path = f"/volumes/{volume.id}"
    assert "needs volumes.manage" in browser_as("viewer").get(path).text
    assert browser_as("viewer").post(f"{path}/detach").status_code == 403
    assert browser_as("outsider").get(path).status_code == 404


def test_volume_pages_without_billing_are_unavailable(browser_as, volume, volume_body):
    settings.update({"billing_enabled": False})
    session.commit()
    assert "Volumes are not available at the moment" in browser_as("owner").get("/volumes").text
    assert browser_as("owner").post("/volumes/new", data={"name": "x", **volume_body}).status_code == 403


def test_volume_form_without_plans_says_what_to_do(browser_as):
    page = browser_as("owner").get("/volumes/new").text
    assert "No volume plan is available at the moment. Contact support." in page
    assert 'type="submit" disabled>Create volume<' in page


def test_operator_volume_pages(browser_as, volume, machine, call_storage_api, run_tasks):
    admin = browser_as("admin")
    assert volume.disk_name in admin.get("/admin/volumes").text
    call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    run_tasks()
    assert admin.post(f"/admin/volumes/{volume.id}/detach").status_code == 303
    run_tasks()
    assert volume.instance_id is None
    assert admin.post(f"/admin/volumes/{volume.id}/delete").status_code == 303
    run_tasks()
    assert "No volumes yet" in admin.get("/admin/volumes").text


def test_storage_tab_links_to_volumes(browser_as, cast):
    tab = f"/instances/{cast.instance().id}/storage"
    page = browser_as("owner").get(tab).text
    assert "No volume is attached." in page
    assert 'href="/volumes"' in page
    assert "No volume is attached." not in browser_as("admin").get(f"/admin{tab}").text
