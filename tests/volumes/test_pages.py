"""The pages of volumes, without JavaScript."""

from panel.core.db import session
from panel.models import Volume
from panel.services import settings


def test_the_whole_way(browse, plans, place, work, machine, on_node):
    owner = browse("owner")
    assert "No volume yet" in owner.get("/volumes").text
    assert plans["large"].id in owner.get("/volumes/new").text
    wrong = owner.post("/volumes/new", data={"name": "", **place})
    assert (wrong.status_code, "Fill this in." in wrong.text or "hort" in wrong.text) == (422, True)
    made = owner.post("/volumes/new", data={"name": "data", **place})
    assert made.status_code == 303
    work()
    path = made.headers["Location"]
    volume = session.get(Volume, path.rpartition("/")[2])
    assert "Available" in owner.get(path).text
    assert owner.post(f"{path}/attach", data={"instance_id": machine.id}).status_code == 303
    work()
    assert volume.dev in owner.get(path).text
    assert volume.name in owner.get(f"/instances/{machine.id}/storage").text
    refused = owner.post(f"{path}/attach", data={"instance_id": machine.id})
    assert (refused.status_code, "cannot be attached" in refused.text) == (422, True)
    assert owner.post(f"{path}/resize", data={"volume_plan_id": plans["large"].id}).status_code == 303
    assert owner.post(f"{path}/snapshot", data={"name": "one"}).status_code == 303
    work()
    assert owner.post(f"{path}/snapshot", data={"name": "one"}).status_code == 422
    assert owner.post(f"{path}/detach").status_code == 303
    work()
    [kept] = volume.snapshots
    assert "one" in owner.get(path).text
    for action in ("restore", "copy", "delete"):
        assert owner.post(f"{path}/snapshot/{kept.id}/{action}").status_code == 303
        work()
    assert "data from one" in owner.get("/volumes").text
    assert owner.post(f"{path}/delete").status_code == 303
    work()
    assert owner.get(path).status_code == 404
    assert len(on_node()) == 1


def test_who_may_what(browse, volume):
    path = f"/volumes/{volume.id}"
    assert "needs volumes.manage" in browse("viewer").get(path).text
    assert browse("viewer").post(f"{path}/detach").status_code == 403
    assert browse("outsider").get(path).status_code == 404


def test_while_billing_is_off(browse, volume, place):
    settings.update({"billing_enabled": False})
    session.commit()
    assert "Volumes cannot be used at the moment" in browse("owner").get("/volumes").text
    assert browse("owner").post("/volumes/new", data={"name": "x", **place}).status_code == 403


def test_operators(browse, volume, machine, call, work):
    admin = browse("admin")
    assert volume.disk_name in admin.get("/admin/volumes").text
    call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    work()
    assert admin.post(f"/admin/volumes/{volume.id}/detach").status_code == 303
    work()
    assert volume.instance_id is None
    assert admin.post(f"/admin/volumes/{volume.id}/delete").status_code == 303
    work()
    assert "No volume yet" in admin.get("/admin/volumes").text


def test_the_storage_tab_leads_to_volumes(browse, cast):
    tab = f"/instances/{cast.instance().id}/storage"
    page = browse("owner").get(tab).text
    assert "No volume is attached." in page
    assert 'href="/volumes"' in page
    assert "No volume is attached." not in browse("admin").get(f"/admin{tab}").text
