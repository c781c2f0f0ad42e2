"""Images of micro VMs on the pages of both areas."""

import pytest

from panel.core.db import session
from panel.models import MicrovmImage
from panel.services import settings
from tests.support.simulated_sandbox import simulated_sandbox  # noqa: F401  (fixture)

LIST = {"owner": "/microvms/images", "admin": "/admin/microvms/images"}


@pytest.fixture
def form_data(image, profile, simulated_sandbox):
    return {"name": "web-app", "image_id": image.id, "commands": "pip install flask\r\n\r\nmkdir /srv/app\r\n"}


@pytest.mark.parametrize("caller", LIST)
def test_form_builds_image_and_page_shows_log(browser_as, form_data, run_tasks, simulated_sandbox, caller):
    browser, path = browser_as(caller), LIST[caller]
    assert "Source image" in browser.get(f"{path}/new").text
    answer = browser.post(f"{path}/new", data={**form_data, "envs": "MODE=a=b\r\nEMPTY=\r\n"})
    assert answer.status_code == 303, answer.text
    built = session.query(MicrovmImage).filter_by(name="web-app").one()
    assert built.build.commands == ["pip install flask", "mkdir /srv/app"]
    assert built.envs == {"MODE": "a=b", "EMPTY": ""}
    assert "Building" in browser.get(path).text
    assert "every 2s" in browser.get(f"{path}/{built.id}").text
    simulated_sandbox.answers["pip install flask"] = ("<b>Collecting</b>\n", 0)
    run_tasks()
    page = browser.get(f"{path}/{built.id}").text
    assert "&lt;b&gt;Collecting" in page
    assert "every 2s" not in page
    assert "EMPTY, MODE" in page


@pytest.mark.parametrize("caller", LIST)
def test_failed_image_is_tried_again_and_deleted(browser_as, form_data, run_tasks, simulated_sandbox, caller):
    browser, path = browser_as(caller), LIST[caller]
    simulated_sandbox.answers["mkdir /srv/app"] = ("no room\n", 9)
    browser.post(f"{path}/new", data=form_data)
    run_tasks()
    built = session.query(MicrovmImage).filter_by(name="web-app").one()
    page = browser.get(f"{path}/{built.id}").text
    assert "Command 2 ended with exit code 9: no room" in page
    assert "Try again" in page
    simulated_sandbox.answers.clear()
    assert browser.post(f"{path}/{built.id}/build").status_code == 303
    run_tasks()
    assert "Try again" not in browser.get(f"{path}/{built.id}").text
    assert browser.post(f"{path}/{built.id}/delete").status_code == 303
    assert browser.get(f"{path}/{built.id}").status_code == 404


@pytest.mark.parametrize("caller", LIST)
def test_image_is_edited(browser_as, form_data, run_tasks, caller):
    browser, path = browser_as(caller), LIST[caller]
    browser.post(f"{path}/new", data=form_data)
    run_tasks()
    built = session.query(MicrovmImage).filter_by(name="web-app").one()
    assert 'value="web-app"' in browser.get(f"{path}/{built.id}/edit").text
    values = {"name": "renamed", "label": "Renamed", "cpu_cores": 2, "memory_mb": 1024, "disk_gb": 4}
    assert browser.post(f"{path}/{built.id}/edit", data={**values, "memory_mb": 1}).status_code == 422
    assert browser.post(f"{path}/{built.id}/edit", data=values).status_code == 303
    assert {name: getattr(built, name) for name in values} == values


def test_errors_are_at_their_fields(browser_as, form_data):
    data = {**form_data, "name": "Upper", "commands": "", "envs": "no sign"}
    answer = browser_as("owner").post("/microvms/images/new", data=data)
    assert answer.status_code == 422
    for field in ("name", "commands", "envs"):
        assert f'id="wrong-{field}"' in answer.text


def test_customer_sees_platform_image_without_buttons_to_change_it(browser_as, image):
    page = browser_as("owner").get(f"/microvms/images/{image.id}").text
    assert "Build from this image" in page
    assert "Delete image" not in page
    assert browser_as("owner").post(f"/microvms/images/{image.id}/delete").status_code == 404


def test_foreign_image_page_is_not_found(browser_as, form_data):
    browser_as("owner").post("/microvms/images/new", data=form_data)
    built = session.query(MicrovmImage).filter_by(name="web-app").one()
    outsider = browser_as("outsider")
    assert outsider.get(f"/microvms/images/{built.id}").status_code == 404
    assert "web-app" not in outsider.get("/microvms/images").text
    assert browser_as("viewer").post(f"/microvms/images/{built.id}/build").status_code == 403


def test_pages_without_images_say_what_to_do(browser_as, profile):
    for path in ("/microvms/images", "/microvms/images/new"):
        page = browser_as("owner").get(path).text
        assert "Contact support." in page, path
        assert "Build image" not in page, path
    pools = f"/admin/microvms/hypervisors/{profile.id}/pools/new"
    for path in ("/admin/microvms/images", "/admin/microvms/images/new", pools):
        page = browser_as("admin").get(path).text
        assert 'data-copy="panel image build sandbox"' in page, path
        assert "<form id=" not in page, path


def test_pages_say_that_billing_is_off(browser_as, form_data):
    settings.update({"billing_enabled": False})
    session.commit()
    browser = browser_as("owner")
    assert 'href="/microvms/images"' not in browser.get("/").text
    for path in ("/microvms/images", "/microvms/images/new"):
        page = browser.get(path).text
        assert "Billing is disabled, so this cannot be used. Contact support." in page, path
        assert "Build an image</a>" not in page, path
        assert 'name="commands"' not in page, path
    assert browser.post("/microvms/images/new", data=form_data).status_code == 403


def test_member_sees_whose_image_it_is(browser_as, form_data):
    browser_as("owner").post("/microvms/images/new", data=form_data)
    page = browser_as("viewer").get("/microvms/images").text
    assert ("This account" in page, ">You<" in page) == (True, False)
    assert '<div class="text-secondary small font-monospace text-break">web-app' not in page


def test_form_shows_the_reason_that_a_location_takes_no_build(browser_as, form_data, profile, cast):
    browser = browser_as("owner")
    profile.max_microvms, profile.max_memory_mb = 0, 1
    session.commit()
    assert "(no room at the moment)" in browser.get("/microvms/images/new").text
    profile.enabled = False
    session.commit()
    assert "(no hypervisor for micro VMs at the moment)" in browser.get("/microvms/images/new").text
    cast.location.microvm_enabled = False
    session.commit()
    page = browser.get("/microvms/images/new").text
    assert ("(closed to micro VMs)" in page, "No location is open to micro VMs." in page) == (True, True)
