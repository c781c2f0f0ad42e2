"""Micro VMs and profiles on operators' pages."""

from markupsafe import escape

from panel.core.db import session
from panel.models import Microvm, MicrovmProfile
from tests.support.html_pages import PARTIAL_HEADERS


def test_microvm_is_listed_shown_and_destroyed(browser_as, microvm, run_tasks, reload):
    browser = browser_as("admin")
    listed = browser.get("/admin/microvms").text
    assert microvm.sandbox_id in listed
    assert "owner@example.com" in listed
    assert "node-1" in browser.get(f"/admin/microvms/{microvm.id}").text
    path = f"/admin/microvms/{microvm.id}"
    refused = browser.post(f"{path}/delete", data={"typed": "another"})
    assert (refused.status_code, "The name does not match." in refused.text) == (422, True)
    answer = browser.post(f"{path}/delete", data={"typed": "worker"}, headers=PARTIAL_HEADERS)
    assert answer.headers["HX-Redirect"] == "/admin/microvms"
    assert "Destruction of micro VM worker requested." in browser.get("/admin/microvms").text
    run_tasks()
    assert reload(microvm).ended_at is not None
    assert "No micro VM yet" in browser.get("/admin/microvms").text
    assert "No micro VM matches" in browser.get("/admin/microvms?state=running").text


def test_operator_sees_what_destroying_deletes(browser_as, microvm, run_tasks, change_config):
    change_config(sandbox_domain="sandbox.example.net")
    browser, owner, path = browser_as("admin"), browser_as("owner"), f"/microvms/{microvm.id}"
    assert "deletes the disk (2 GiB). It cannot" in browser.get(f"/admin{path}").text
    owner.post(f"{path}/addresses", data={"port": "8000"})
    assert "deletes the disk (2 GiB) and 1 public address. It cannot" in browser.get(f"/admin{path}").text
    owner.post(f"{path}/snapshot", data={"name": "ready"})
    run_tasks()
    page = browser.get(f"/admin{path}").text
    assert "deletes the disk (2 GiB), 1 snapshot and 1 public address. It cannot" in page
    assert f'hx-post="/admin{path}/delete"' in page


def test_operator_sees_error_and_task_of_a_failed_create(browser_as, call_api, microvm_body, run_tasks, node):
    node.fault("define", "refuse", 1)
    microvm_id = call_api("POST", "vms", **microvm_body, timeout_seconds=3600).json["vm"]["id"]
    run_tasks()
    microvm = session.get(Microvm, microvm_id)
    page = browser_as("admin").get(f"/admin/microvms/{microvm_id}").text
    assert "Could not be created" in page
    assert "alert-danger" in page
    assert escape(microvm.error) in page
    assert f'href="/admin/tasks/{microvm.task_id}"' in page
    assert ">Ends<" not in page


def test_operator_finds_microvm_by_metadata(browser_as, create_microvm):
    microvm, other = (create_microvm(metadata={"run": run}) for run in ("17", "18"))
    browser = browser_as("admin")
    assert 'href="/admin/microvms?search=run%3D17"' in browser.get(f"/admin/microvms/{microvm.id}").text
    found = browser.get("/admin/microvms?search=run=17").text
    assert 'href="/admin/microvms?search=run%3D17"' in found
    assert (microvm.id in found, other.id in found) == (True, False)


def test_operator_sees_when_a_paused_microvm_ends(browser_as, create_microvm, request_action, run_tasks):
    microvm = create_microvm(timeout_seconds=3600)
    request_action(microvm, "pause")
    run_tasks()
    browser = browser_as("admin")
    assert "after it resumes" in browser.get(f"/admin/microvms/{microvm.id}").text
    assert "after it resumes" in browser.get("/admin/microvms").text


def test_profile_form_adds_changes_and_removes(browser_as, cast):
    browser, path = browser_as("admin"), "/admin/microvms/hypervisors"
    assert "No hypervisor takes micro VMs yet" in browser.get(path).text
    data = {"hypervisor_id": cast.node.id, "max_microvms": "10", "max_memory_mb": "0", "enabled": "true"}
    assert browser.post(f"{path}/new", data=data).status_code == 303
    profile = session.query(MicrovmProfile).one()
    assert (profile.hypervisor_id, profile.enabled, profile.max_microvms) == (cast.node.id, True, 10)
    assert "0 of 10" in browser.get(path).text
    assert browser.post(f"{path}/new", data=data).status_code == 422
    edit = f"{path}/{profile.id}"
    assert 'value="10"' in browser.get(edit).text
    assert (
        browser.post(edit, data={"max_microvms": "5", "max_memory_mb": "1024", "enabled": "false"}).status_code == 303
    )
    assert (profile.enabled, profile.max_microvms, profile.max_memory_mb) == (False, 5, 1024)
    assert browser.post(f"{edit}/delete").status_code == 303
    assert session.query(MicrovmProfile).count() == 0


def test_refused_profile_names_line_range_and_example(browser_as, cast):
    data = {
        "hypervisor_id": cast.node.id,
        "max_microvms": "-1",
        "address_range": "nonsense",
        "nameservers": "9.9.9.9\r\n\r\nnonsense\r\n10.0.0.1",
    }
    answer = browser_as("admin").post("/admin/microvms/hypervisors/new", data=data)
    assert answer.status_code == 422
    for error in (
        "Enter a number from 0 to ",
        "Must be a network such as 100.96.0.0/16.",
        "Line 3: Must be an IP address. Line 4: Must be a public IPv4 address",
    ):
        assert error in answer.text, error


def test_operators_see_which_settings_the_router_needs(browser_as, change_config):
    path = "/admin/microvms/hypervisors"
    assert "PANEL_SANDBOX_DOMAIN" in browser_as("admin").get(path).text
    change_config(sandbox_url="https://router.example.net")
    assert "PANEL_SANDBOX_DOMAIN" not in browser_as("admin").get(path).text


def test_hint_of_a_checkbox_is_no_part_of_its_name(browser_as):
    page = browser_as("admin").get("/admin/microvms/hypervisors/new").text
    assert '<label class="form-check-label" for="field-enabled">Accept new micro VMs</label>' in page
    assert 'aria-describedby="hint-enabled"' in page
