"""Pages of ISOs, images, and the media of instances."""

import pytest

from panel.core.db import session
from panel.models import Image, Instance, Iso, Rescue, Task
from panel.services import isos


@pytest.fixture
def running_instance(api_as, cast, run_tasks):
    instance = cast.instance(display_name="Shop")
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    return session.get(Instance, instance.id)


@pytest.fixture
def stopped_instance(api_as, running_instance, run_tasks):
    api_as("owner", "POST", f"/api/instance/{running_instance.id}/power/poweroff")
    run_tasks()
    return session.get(Instance, running_instance.id)


@pytest.fixture
def iso(file_server, run_tasks):
    created_iso = isos.create(url=file_server.put(), name="Installer", actor="test")
    session.commit()
    run_tasks()
    return created_iso


def get_media_page(browser, instance):
    return browser.get(f"/instances/{instance.id}/media").text


def test_customer_adds_and_deletes_iso(browser_as, file_server, run_tasks):
    browser = browser_as("owner")
    assert "No ISO yet" in browser.get("/isos").text
    answer = browser.post("/isos/new", data={"url": "http://example.com/x.iso"})
    assert (answer.status_code, "Must begin with https://" in answer.text) == (422, True)
    answer = browser.post("/isos/new", data={"url": file_server.url("/missing.iso"), "name": "Mine"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/isos")
    assert "Downloading" not in browser.get("/isos").text, "the account has no instance on a node"
    iso = session.query(Iso).one()
    assert browser.post(f"/isos/{iso.id}/retry").status_code == 303
    assert browser.post(f"/isos/{iso.id}/delete").status_code == 303
    assert session.query(Iso).count() == 0


def test_iso_page_shows_download_error(browser_as, running_instance, file_server, run_tasks):
    browser = browser_as("owner")
    browser.post("/isos/new", data={"url": file_server.url("/missing.iso"), "name": "Mine"})
    assert "Downloading" in browser.get("/isos").text
    run_tasks()
    shown = browser.get("/isos").text
    assert "Failed" in shown
    assert "The server answered with 404." in shown


def test_admin_iso_page_shows_hypervisors(browser_as, iso, file_server):
    browser = browser_as("admin")
    assert "1 of 1" in browser.get("/admin/isos").text
    shown = browser.get(f"/admin/isos/{iso.id}").text
    assert "node-1" in shown
    assert "Ready" in shown
    answer = browser.post(f"/admin/isos/{iso.id}", data={"name": "New", "enabled": "false", "public": "true"})
    assert answer.status_code == 303
    assert (session.get(Iso, iso.id).name, session.get(Iso, iso.id).enabled) == ("New", False)
    assert browser.post(f"/admin/isos/{iso.id}/retry").status_code == 303
    answer = browser.post("/admin/isos/new", data={"url": file_server.url("/a b.iso"), "public": "true"})
    assert answer.status_code == 422
    assert browser.post(f"/admin/isos/{iso.id}/delete").status_code == 303
    assert session.query(Iso).count() == 0


def test_media_page_mounts_and_unmounts_iso(browser_as, running_instance, iso, node, run_tasks):
    browser = browser_as("owner")
    assert get_media_page(browser, running_instance).count("The drive is empty.") == 2
    assert (
        browser.post(f"/instances/{running_instance.id}/drive/primary/mount", data={"iso_id": iso.id}).status_code
        == 303
    )
    run_tasks()
    assert node.get_loaded_media(running_instance.id, "primary")
    assert get_media_page(browser, running_instance).count("The drive is empty.") == 1
    assert browser.post(f"/instances/{running_instance.id}/drive/primary/unmount").status_code == 303
    run_tasks()
    assert not node.get_loaded_media(running_instance.id, "primary")
    assert (
        browser.post(f"/instances/{running_instance.id}/drive/primary/mount", data={"iso_id": "x"}).status_code == 422
    )


def test_media_page_starts_and_ends_rescue(browser_as, stopped_instance, run_tasks):
    browser = browser_as("owner")
    assert "Start rescue" in get_media_page(browser, stopped_instance)
    assert browser.post(f"/instances/{stopped_instance.id}/rescue/on").status_code == 303
    run_tasks()
    password = session.get(Rescue, stopped_instance.id).password
    assert password in get_media_page(browser, stopped_instance)
    assert password not in get_media_page(browser_as("viewer"), stopped_instance), (
        "only shown with the manage permission"
    )
    assert browser.post(f"/instances/{stopped_instance.id}/rescue/off").status_code == 303
    run_tasks()
    assert password not in get_media_page(browser, stopped_instance)


def test_media_page_explains_disabled_rescue(browser_as, running_instance):
    assert "The instance is running. Shut it down first." in get_media_page(browser_as("owner"), running_instance)


def test_image_pages_capture_rename_and_delete(browser_as, stopped_instance, run_tasks):
    browser = browser_as("owner")
    assert "No image yet" in browser.get("/images").text
    assert browser.post(f"/instances/{stopped_instance.id}/capture", data={"name": ""}).status_code == 422
    assert browser.post(f"/instances/{stopped_instance.id}/capture", data={"name": "golden"}).status_code == 303
    assert "Creating" in browser.get("/images").text
    run_tasks()
    image = session.query(Image).filter_by(purpose="user").one()
    assert "Ready" in browser.get("/images").text
    assert browser.post(f"/images/{image.id}", data={"name": "silver"}).status_code == 303
    assert "silver" in browser.get("/images").text
    assert browser_as("outsider").get(f"/images/{image.id}").status_code == 404
    assert browser.post(f"/images/{image.id}/delete").status_code == 303
    assert session.query(Image).filter_by(purpose="user").count() == 0


def test_install_from_iso_requires_typed_name(browser_as, stopped_instance, iso, run_tasks):
    browser = browser_as("owner")
    path = f"/instances/{stopped_instance.id}/self-deploy"
    assert browser.post(path, data={"iso_id": iso.id, "typed": "wrong"}).status_code == 422
    assert session.query(Task).filter_by(kind="instance_self_deploy").count() == 0
    assert browser.post(path, data={"iso_id": iso.id, "typed": "Shop"}).status_code == 303
    run_tasks()
    assert session.query(Task).filter_by(kind="instance_self_deploy").one().status == "completed"


def test_operator_browses_and_adds_images(browser_as, file_server, run_tasks):
    browser = browser_as("admin")
    assert "AlmaLinux 9" in browser.get("/admin/image-browser").text
    assert "AlmaLinux" not in browser.get("/admin/image-browser?search=ubuntu").text
    body = {"url": file_server.url("/x.qcow2"), "name": "x", "distro": "Debian", "version": "12"}
    answer = browser.post("/admin/image-browser/new", data=body)
    assert answer.status_code == 303
    run_tasks()
    image = session.query(Image).filter_by(name="x").one()
    assert "The server answered with 404." in browser.get(f"/admin/images/{image.id}").text
    assert browser.post(f"/admin/images/{image.id}/retry").status_code == 303
    assert browser.post(f"/admin/images/{image.id}/delete").status_code == 303
    assert session.query(Image).filter_by(name="x").count() == 0
    assert browser.post("/admin/image-browser/new", data={}).status_code == 422
