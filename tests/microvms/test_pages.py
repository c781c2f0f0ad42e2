"""Micro VMs on customers' pages."""

import pytest

from panel.core.db import session
from panel.models import Microvm, MicrovmConnector, MicrovmSnapshot
from panel.services import microvms, settings
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.microvms import register_image
from tests.support.team import add_member  # noqa: F401  (fixture)


def test_form_creates_microvm(browser_as, microvm_body, run_tasks):
    browser = browser_as("owner")
    assert "No micro VM yet" in browser.get("/microvms").text
    page = browser.get("/microvms/new").text
    assert "Laboratory" in page
    assert "Sandbox" in page
    answer = browser.post("/microvms/new", data={**microvm_body, "timeout_seconds": "3600", "on_timeout": "pause"})
    assert answer.status_code == 303
    microvm = session.query(Microvm).one()
    assert (microvm.name, microvm.timeout_seconds, microvm.on_timeout) == ("worker", 3600, "pause")
    run_tasks()
    assert "Running" in browser.get("/microvms").text
    shown = browser.get(f"/microvms/{microvm.id}").text
    assert microvm.sandbox_id in shown
    assert "512 MiB" in shown


def test_pages_say_that_the_hypervisor_is_not_reachable(browser_as, create_microvm, run_tasks):
    """The customer's pages, and the operator's, where the profile is on."""
    microvm = create_microvm()
    run_tasks()
    pages = [("owner", "/microvms"), ("owner", f"/microvms/{microvm.id}"), ("admin", "/admin/microvms")]
    for caller, path in pages:
        assert "last known state" not in browser_as(caller).get(path).text, path
    assert "Hypervisor does not respond" not in browser_as("admin").get("/admin/microvms/hypervisors").text
    microvm.hypervisor.status = "down"
    session.commit()
    for caller, path in pages:
        assert "last known state" in browser_as(caller).get(path).text, path
    assert "Hypervisor does not respond" in browser_as("admin").get("/admin/microvms/hypervisors").text


def test_form_error_is_shown_at_its_field(browser_as, microvm_body, profile):
    profile.enabled = False
    session.commit()
    browser = browser_as("owner")
    answer = browser.post("/microvms/new", data={**microvm_body, "name": "", "memory_mb": "1"})
    assert answer.status_code == 422
    assert 'id="wrong-name"' in answer.text
    answer = browser.post("/microvms/new", data={**microvm_body, "on_timeout": "kill"})
    assert (answer.status_code, "No hypervisor in this location" in answer.text) == (422, True)


def test_buttons_change_power(browser_as, microvm, run_tasks, reload):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    for action, state in (
        ("pause", "paused"),
        ("resume", "running"),
        ("stop", "stopped"),
        ("start", "running"),
        ("restart", "running"),
    ):
        assert browser.post(f"{path}/{action}").status_code == 303, action
        run_tasks()
        assert reload(microvm).state == state
    assert browser.post(f"{path}/resume").status_code == 409


def test_snapshot_is_taken_rolled_back_and_deleted(browser_as, microvm, run_tasks):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    assert browser.post(f"{path}/snapshot", data={"name": "ready"}).status_code == 303
    run_tasks()
    snapshot = session.query(MicrovmSnapshot).one()
    assert "Roll back to the snapshot “ready” of " in browser.get(path).text
    assert browser.post(f"{path}/snapshot", data={"name": "ready"}).status_code == 422
    assert browser.post(f"{path}/snapshot/{snapshot.id}/rollback").status_code == 303
    admin = browser_as("admin")
    for page in (browser.get(path), browser.get("/microvms"), admin.get(f"/admin{path}"), admin.get("/admin/microvms")):
        assert ("Rolling back" in page.text, "Starting" in page.text) == (True, False)
    run_tasks()
    assert "Rolling back" not in browser.get(path).text
    assert browser.post(f"{path}/snapshot/{snapshot.id}/delete").status_code == 303
    run_tasks()
    assert session.query(MicrovmSnapshot).count() == 0


def test_microvm_is_destroyed_when_its_name_is_typed(browser_as, microvm, run_tasks):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    browser.post(f"{path}/snapshot", data={"name": "ready"})
    run_tasks()
    page = browser.get(path).text
    assert "deletes the disk (2 GiB) and 1 snapshot." in page
    answer = browser.post(f"{path}/delete", data={"typed": "another"})
    assert (answer.status_code, "The name does not match." in answer.text) == (422, True)
    assert browser.post(f"{path}/delete", data={"typed": "worker"}).status_code == 303
    assert "Destroying" in browser.get("/microvms").text
    run_tasks()
    assert browser.get(path).status_code == 404


def test_open_pages_of_an_ended_microvm_say_so(browser_as, microvm, request_action, run_tasks, add_member):
    add_member("chooser", ["microvm.view"], "chosen")
    request_action(microvm, "destroy")
    run_tasks()
    for caller, area in (("owner", ""), ("chooser", ""), ("admin", "/admin")):
        path = f"{area}/microvms/{microvm.id}"
        for page in (path,) if area else (path, f"{path}/logs"):
            browser = browser_as(caller)
            refreshed = browser.get(page, headers=PARTIAL_HEADERS)
            assert refreshed.status_code == 200, page
            assert "This micro VM has ended." in refreshed.text
            assert f'href="{area}/microvms"' in refreshed.text
            assert "hx-trigger" not in refreshed.text
            assert browser.get(page).status_code == 404
    for caller in ("outsider", "owner"):
        path = f"/microvms/{microvm.id if caller == 'outsider' else UNKNOWN_ID}"
        assert browser_as(caller).get(path, headers=PARTIAL_HEADERS).status_code == 404


def test_foreign_microvm_page_is_not_found(browser_as, microvm):
    outsider = browser_as("outsider")
    assert outsider.get(f"/microvms/{microvm.id}").status_code == 404
    assert outsider.post(f"/microvms/{microvm.id}/delete").status_code == 404
    assert microvm.name not in outsider.get("/microvms").text


def test_viewer_cannot_change_microvm(browser_as, microvm):
    viewer = browser_as("viewer")
    assert viewer.get(f"/microvms/{microvm.id}").status_code == 200
    assert viewer.post(f"/microvms/{microvm.id}/stop").status_code == 403


def test_pages_say_that_billing_is_off(browser_as, microvm, microvm_body):
    settings.update({"billing_enabled": False})
    session.commit()
    browser = browser_as("owner")
    assert "Billing is disabled" in browser.get("/microvms").text
    assert browser.post("/microvms/new", data=microvm_body).status_code == 403
    assert browser.post(f"/microvms/{microvm.id}/delete", data={"typed": microvm.name}).status_code == 303


@pytest.mark.parametrize("query", ["?state=running", "?search=work", "?state=nosuch"])
def test_list_is_filtered(browser_as, microvm, query):
    assert microvm.sandbox_id in browser_as("owner").get(f"/microvms{query}").text
    assert "No micro VM matches" in browser_as("owner").get("/microvms?search=nosuch").text


def test_public_address_is_added_and_removed(browser_as, microvm, change_config):
    change_config(sandbox_domain="sandboxes.example.net")
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    assert "0 of 5 micro VMs have a public address" in browser.get(path).text
    answer = browser.post(f"{path}/addresses", data={"port": "8080", "label": "shop"})
    assert answer.status_code == 303
    page = browser.get(path).text
    assert "Public address shop added." in page
    assert 'href="https://shop.sandboxes.example.net"' in page
    assert "1 of 5 micro VMs have a public address" in page
    connector = session.query(MicrovmConnector).one()
    assert browser.post(f"{path}/addresses", data={"port": "81", "label": ""}).status_code == 303
    other_path = "/microvms/0199c0a8-0000-7000-8000-000000000000"
    assert browser.post(f"{other_path}/address/{connector.id}/delete").status_code == 404
    assert browser_as("outsider").post(f"{path}/address/{connector.id}/delete").status_code == 404
    assert browser_as("outsider").post(f"{path}/addresses", data={"port": "82"}).status_code == 404
    assert browser_as("viewer").post(f"{path}/addresses", data={"port": "82"}).status_code == 403
    assert browser.post(f"{path}/address/{connector.id}/delete").status_code == 303
    assert 'href="https://shop.' not in browser.get(path).text


def test_refused_public_address_is_shown_at_its_field(browser_as, microvm, change_config, cast):
    change_config(sandbox_domain="sandboxes.example.net")
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    answer = browser.post(f"{path}/addresses", data={"port": "", "label": "api"})
    assert answer.status_code == 422
    assert 'id="wrong-port"' in answer.text
    assert "This name is reserved" in answer.text
    cast.owner.max_serverless_apps = 1
    session.commit()
    other = session.get(Microvm, microvms.create(cast.owner, **describe_copy(microvm)).id)
    microvms.connectors.create(cast.owner, microvm_id=other.id, port=80)
    session.commit()
    assert "The limit of micro VMs with a public address is reached." in browser.get(path).text
    answer = browser.post(f"{path}/addresses", data={"port": "80"})
    assert (answer.status_code, "The limit is 1 micro VM with a public address" in answer.text) == (422, True)


def describe_copy(microvm):
    return {"location_id": microvm.group_id, "image_id": microvm.image_id, "name": "copy", "actor": "owner@example.com"}


def test_page_says_that_there_is_no_domain_for_public_addresses(browser_as, microvm):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    page = browser.get(path).text
    assert "Public addresses are not available here" in page
    assert "PANEL_" not in page
    assert f"{path}/addresses" not in page
    assert browser.post(f"{path}/addresses", data={"port": "80"}).status_code == 422


def test_create_form_shows_size_and_price_of_the_chosen_image(browser_as, microvm_body, image):
    image.price = 3
    large = register_image("large", aliases=[], label="Large", cpu_cores=4, memory_mb=2048, price=12)
    browser = browser_as("owner")
    page = browser.get(f"/microvms/new?image={large.id}").text
    assert "The image has 4." in page
    assert 'href="/microvms">Cancel</a>' in page
    assert "2048 MiB" in page
    assert "12.00" in page
    assert 'value="3600" selected' in page
    assert "Incoming requests need a public address" not in page  # no location offers internet access
    form = {**microvm_body, "name": "half-typed", "memory_mb": "1024", "preview": "1"}
    preview = browser.post("/microvms/new", data=form).text
    assert "The image has 1." in preview
    assert "1024 MiB" in preview
    assert "3.00" in preview
    assert 'value="half-typed"' in preview
    assert session.query(Microvm).count() == 0


def test_failed_microvm_can_be_created_again(browser_as, call_api, microvm_body, run_tasks, node):
    node.fault("define", "refuse", 1)
    microvm_id = call_api("POST", "vms", **microvm_body, memory_mb=700).json["vm"]["id"]
    run_tasks()
    browser, path = browser_as("owner"), f"/microvms/{microvm_id}"
    page = browser.get(path).text
    assert "Could not be created" in page
    assert "alert-danger" in page
    assert f"{path}/start" not in page
    assert "Turn internet access" not in page
    form = browser.get(f"/microvms/new?copy={microvm_id}").text
    assert 'value="worker"' in form
    assert 'value="700"' in form
    assert browser_as("outsider").get(f"/microvms/new?copy={microvm_id}").status_code == 404


def test_microvm_is_edited(browser_as, microvm, reload):
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}/edit"
    assert 'value="worker"' in browser.get(path).text
    changes = {"name": "renamed", "tags": "b\na", "timeout_seconds": "3600", "on_timeout": "pause"}
    assert browser.post(path, data=changes).status_code == 303
    row = reload(microvm)
    assert (row.name, row.tags, row.timeout_seconds, row.on_timeout) == ("renamed", ["a", "b"], 3600, "pause")
    expires_at = row.expires_at
    assert browser.post(path, data={**changes, "timeout_seconds": "0"}).status_code == 303
    assert reload(microvm).expires_at == expires_at
    assert browser.post(path, data={**changes, "timeout_seconds": ""}).status_code == 303
    assert (reload(microvm).timeout_seconds, reload(microvm).expires_at) == (None, None)
    answer = browser.post(path, data={**changes, "name": "", "timeout_seconds": "99999999"})
    assert (answer.status_code, 'id="wrong-name"' in answer.text, 'id="wrong-timeout_seconds"' in answer.text) == (
        422,
        True,
        True,
    )
    for caller, status in (("outsider", 404), ("viewer", 403)):
        assert browser_as(caller).post(path, data=changes).status_code == status


def test_list_and_page_show_metadata_and_actions(browser_as, create_microvm, run_tasks, queries):
    microvm = create_microvm(metadata={"run": "17"})
    browser, counts = browser_as("owner"), []
    for _number in range(2):
        queries.clear()
        page = browser.get("/microvms").text
        counts.append(len(queries))
        other = create_microvm(metadata={"run": "18"})
    assert counts[0] == counts[1]
    assert "run=17" in browser.get(f"/microvms/{microvm.id}").text
    assert 'href="/microvms?search=run%3D17"' in page
    assert f"/microvms/{microvm.id}/pause" in page
    assert f"/microvms/{microvm.id}/resume" not in page
    found = browser.get("/microvms?search=run=17").text
    assert (microvm.id in found, other.id in found) == (True, False)
    assert f"/microvms/{microvm.id}/pause" not in browser_as("viewer").get("/microvms").text.replace("disabled", "")


def test_page_says_what_a_paused_microvm_costs_and_when_it_ends(browser_as, image, create_microvm, run_tasks):
    image.price = 3
    microvm = create_microvm(timeout_seconds=3600)
    browser, path = browser_as("owner"), f"/microvms/{microvm.id}"
    browser.post(f"{path}/pause")
    run_tasks()
    page = browser.get(path).text
    assert "after it resumes" in page
    assert "It costs the same while it is paused." in page
