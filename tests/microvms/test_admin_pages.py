"""Micro VMs and profiles on operators' pages."""

from panel.core.db import session
from panel.models import MicrovmProfile


def test_microvm_is_listed_shown_and_destroyed(browser_as, microvm, run_tasks, reload):
    browser = browser_as("admin")
    listed = browser.get("/admin/microvms").text
    assert microvm.sandbox_id in listed
    assert "owner@example.com" in listed
    assert "node-1" in browser.get(f"/admin/microvms/{microvm.id}").text
    assert browser.post(f"/admin/microvms/{microvm.id}/delete").status_code == 303
    run_tasks()
    assert reload(microvm).ended_at is not None
    assert "No micro VM yet" in browser.get("/admin/microvms").text
    assert "No micro VM matches" in browser.get("/admin/microvms?state=running").text


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
