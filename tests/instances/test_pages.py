"""Instances on the customers' pages: creating, the list, and the tabs of one instance."""

import re

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Instance, SshKey, Task
from panel.services import instances, ssh_keys
from panel.services.instances import state_reports
from tests.support.cast import UNKNOWN_ID
from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.instances import build_form, create_deployed_instance


def get_task(instance, kind):
    return session.scalar(select(Task).where(Task.resource_id == instance.id, Task.kind == kind))


# Create


def test_create_without_javascript(browser_as, cast, run_tasks):
    browser = browser_as("owner")
    page = browser.get("/instances/new").text
    assert f'name="location_id" value="{cast.location.id}" checked' in page
    assert f'name="plan_id" value="{cast.plan.id}" checked' in page
    assert f'name="image_id" value="{cast.image.id}" checked' in page
    answer = browser.post(
        "/instances/new", data=build_form(cast, display_name="Shop front", hostname="shop.example.com")
    )
    assert answer.status_code == 303
    instance = session.scalars(select(Instance)).one()
    assert answer.headers["Location"] == f"/instances/{instance.id}"
    assert (instance.display_name, instance.hostname, instance.state) == ("Shop front", "shop.example.com", "pending")
    page = browser.get(answer.headers["Location"]).text
    password = re.search(r'id="password".*?data-copy="([^"]+)"', page, re.DOTALL)[1]
    assert len(password) > 12
    assert "Queued" in page
    assert password not in browser.get(answer.headers["Location"]).text
    run_tasks()
    assert instance.state == "running"


def test_password_is_shown_only_to_creating_session(browser_as, cast):
    browser = browser_as("owner")
    answer = browser.post("/instances/new", data=build_form(cast))
    address, cookie = answer.headers["Location"], answer.headers["Set-Cookie"]
    other = browser_as("owner").get(address).text
    assert 'id="password"' not in other
    shown = browser.get(address).text
    password = re.search(r'id="password".*?data-copy="([^"]+)"', shown, re.DOTALL)[1]
    assert password not in cookie


def test_create_with_ssh_key_has_no_password(browser_as, cast):
    key = ssh_keys.generate(cast.owner, name="laptop", algorithm="ed25519")[0]
    session.commit()
    browser = browser_as("owner")
    assert f'name="ssh_keys" value="{key.id}" checked' in browser.get("/instances/new").text
    answer = browser.post("/instances/new", data=build_form(cast, ssh_keys=[key.id]))
    assert 'id="password"' not in browser.get(answer.headers["Location"]).text
    instance = session.scalars(select(Instance)).one()
    assert get_task(instance, "instance_deploy").arguments["ssh_keys"] == [key.public_key]


def test_create_adds_new_ssh_key(browser_as, cast):
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBDkNXnKfjDGWqHR8BbYbwbAzZ+JfkjfFXwXWo2wUUpC ada@laptop"
    browser_as("owner").post("/instances/new", data=build_form(cast, key_name="laptop", public_key=line))
    assert session.scalars(select(SshKey)).one().name == "laptop"
    instance = session.scalars(select(Instance)).one()
    assert get_task(instance, "instance_deploy").arguments["ssh_keys"] == [line]


def test_suggested_name_becomes_hostname(browser_as, cast):
    browser_as("owner").post("/instances/new", data=build_form(cast))
    instance = session.scalars(select(Instance)).one()
    assert instance.display_name == instance.hostname == "debian-512mb-lab"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("location_id", UNKNOWN_ID, "No such location is open."),
        ("plan_id", UNKNOWN_ID, "No such plan is offered in this location."),
        ("image_id", UNKNOWN_ID, "No such image."),
        ("hostname", "not valid", "The value must be a valid hostname."),
        ("password", "short", "Length must be between 8 and 128."),
        ("cloudcfg", "- a list", "Must be a YAML mapping."),
        ("public_key", "nonsense", "Paste one line in OpenSSH format."),
        ("ssh_keys", UNKNOWN_ID, "There is no such key in this account."),
    ],
)
def test_create_error_is_shown_at_field_and_creates_nothing(browser_as, cast, field, value, message):
    answer = browser_as("owner").post(
        "/instances/new", data=build_form(cast, display_name="kept name", **{field: value})
    )
    assert answer.status_code == 422
    assert message in answer.text
    assert 'value="kept name"' in answer.text
    assert session.scalars(select(Instance)).all() == []
    assert session.scalars(select(Task).where(Task.kind == "instance_deploy")).all() == []


def test_unavailable_choices_are_shown_with_reason(browser_as, cast):
    cast.image.min_ram = 4096
    session.commit()
    assert "The image needs 4096 MiB of memory." in browser_as("owner").get("/instances/new").text
    cast.node.memory_mb = 256
    session.commit()
    assert "not have enough memory or processors left." in browser_as("owner").get("/instances/new").text
    cast.node.maintenance = True
    session.commit()
    assert "No new instances can be created here at the moment." in browser_as("owner").get("/instances/new").text


def test_create_form_preview_creates_nothing(browser_as, cast):
    answer = browser_as("owner").post(
        "/instances/new", data=build_form(cast, preview="1", display_name="x"), headers=PARTIAL_HEADERS
    )
    assert answer.status_code == 200
    assert answer.text.lstrip().startswith('<form id="form"')
    assert "at the moment" in answer.text
    assert f"&#34;plan_id&#34;: &#34;{cast.plan.id}&#34;" in answer.text
    assert session.scalars(select(Instance)).all() == []


def test_api_example_hides_password(browser_as, cast):
    answer = browser_as("owner").post(
        "/instances/new", data=build_form(cast, preview="1", password="correct horse battery")
    )
    assert "********" in answer.text
    assert "correct horse" not in answer.text


# List


def test_instance_list_filters(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks, display_name="Shop front")
    waiting = cast.instance(display_name="Not yet")
    browser = browser_as("owner")
    page = browser.get("/instances").text
    assert instance.id in page
    assert instance.ipv4 in page
    only = browser.get("/instances?state=running", headers=PARTIAL_HEADERS).text
    assert instance.id in only
    assert waiting.id not in only
    assert instance.id in browser.get(f"/instances?search={instance.ipv4}", headers=PARTIAL_HEADERS).text
    assert instance.id not in browser.get("/instances?search=nothing", headers=PARTIAL_HEADERS).text
    assert instance.id not in browser_as("outsider").get("/instances").text


def test_instance_list_refreshes_quickly_only_during_tasks(browser_as, cast, run_tasks):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, account=cast.owner, actor="test")
    session.commit()
    assert "every 2s" in browser_as("owner").get("/instances", headers=PARTIAL_HEADERS).text
    run_tasks()
    assert "every 2s" not in browser_as("owner").get("/instances", headers=PARTIAL_HEADERS).text


def test_instance_list_has_constant_query_count(browser_as, cast, queries):
    browser = browser_as("owner")
    cast.instance()
    queries.clear()
    browser.get("/instances")
    few = len(queries)
    for _ in range(29):
        cast.instance()
    queries.clear()
    page = browser.get("/instances").text
    assert page.count('<tr id="instance-') == 25
    assert "of 30</p>" in page
    assert len(queries) == few
    assert browser.get("/instances?page=2").text.count('<tr id="instance-') == 5
    assert browser.get("/instances?per_page=50").text.count('<tr id="instance-') == 30
    assert browser.get("/instances").text.count('<tr id="instance-') == 30


# Instance


@pytest.mark.parametrize("tab", ["", "/network", "/storage", "/tasks", "/activity", "/settings"])
def test_instance_page_shows_every_tab(browser_as, cast, run_tasks, tab):
    instance = create_deployed_instance(cast, run_tasks, display_name="Shop front")
    answer = browser_as("owner").get(f"/instances/{instance.id}{tab}")
    assert answer.status_code == 200
    assert instance.ipv4 in answer.text
    assert browser_as("owner").get(f"/instances/{instance.id}{tab}", headers=PARTIAL_HEADERS).status_code == 200
    assert browser_as("outsider").get(f"/instances/{instance.id}{tab}").status_code == 404


def test_unknown_tab_is_not_found(browser_as, cast):
    assert browser_as("owner").get(f"/instances/{cast.instance().id}/nonsense").status_code == 404


def test_outsider_cannot_change_instance(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    outsider = browser_as("outsider")
    for path, data in (
        ("power/poweroff", {}),
        ("rename", {"display_name": "mine"}),
        ("settings", {"display_name": "mine"}),
        ("destroy", {"typed": instance.display_name}),
        ("deploy", {"image_id": cast.image.id}),
    ):
        assert outsider.post(f"/instances/{instance.id}/{path}", data=data).status_code == 404, path
    run_tasks()
    assert (instance.state, instance.display_name) == ("running", instance.name)


def test_instance_page_power_actions(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    browser = browser_as("owner")
    page = f"/instances/{instance.id}"
    answer = browser.post(f"{page}/power/poweroff", headers=PARTIAL_HEADERS)
    assert (answer.status_code, answer.headers["HX-Trigger"], answer.headers["HX-Reswap"]) == (200, "changed", "none")
    assert "Power off requested." in answer.text
    run_tasks()
    assert instance.state == "stopped"
    refused = browser.post(f"{page}/power/restart")
    assert refused.status_code == 409
    assert "The instance is not running. Start it first." in refused.text
    assert 'aria-hidden="true">The instance is not running. Start it first.<' in browser.get(page).text
    assert browser.post(f"{page}/power/start").headers["Location"] == page
    run_tasks()
    assert instance.state == "running"
    assert browser.post(f"{page}/power/explode").status_code == 404


def test_rename_in_place(browser_as, cast):
    instance = cast.instance()
    browser = browser_as("owner")
    assert browser.post(f"/instances/{instance.id}/rename", data={"display_name": "New name"}).status_code == 303
    assert instance.display_name == "New name"
    assert browser.post(f"/instances/{instance.id}/rename", data={"display_name": ""}).status_code == 422
    assert instance.display_name == "New name"
    part = browser.post(f"/instances/{instance.id}/rename", data={"display_name": "<b>"}, headers=PARTIAL_HEADERS).text
    assert part.count("&lt;b&gt;") == 2  # breadcrumb and title
    assert "<b>" not in part


def test_instance_page_saves_settings(browser_as, cast):
    instance = cast.instance()
    address = f"/instances/{instance.id}/settings"
    sent = {"display_name": "A", "hostname": "a.example", "notes": "one\r\ntwo", "protection_enabled": "true"}
    assert browser_as("owner").post(address, data=sent).status_code == 303
    assert (instance.display_name, instance.notes, instance.protection_enabled) == ("A", "one\ntwo", True)
    assert "Turn it off first." in browser_as("owner").get(address).text
    assert browser_as("owner").post(f"/instances/{instance.id}/destroy", data={"typed": "A"}).status_code == 409
    answer = browser_as("owner").post(address, data={**sent, "hostname": "-", "notes": ""})
    assert answer.status_code == 422
    assert "The value must be a valid hostname." in answer.text
    assert instance.notes == "one\ntwo"
    sent |= {"notes": "", "protection_enabled": "false"}
    browser_as("owner").post(address, data=sent)
    assert (instance.notes, instance.protection_enabled) == (None, False)


def test_destroy_requires_instance_name(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks, display_name="Shop front")
    browser, address = browser_as("owner"), f"/instances/{instance.id}"
    refused = browser.post(f"{address}/destroy", data={"typed": "shop"})
    assert refused.status_code == 422
    assert "Nothing was destroyed." in refused.text
    assert browser.post(f"{address}/destroy", data={"typed": "Shop front"}).headers["Location"] == address
    run_tasks()
    assert browser.get(address).status_code == 404
    assert browser.get(address, headers=PARTIAL_HEADERS).headers["HX-Redirect"] == "/instances"
    assert browser_as("outsider").get(address, headers=PARTIAL_HEADERS).status_code == 404


def test_failed_deploy_shows_error_and_can_be_retried(browser_as, cast, run_tasks, node):
    key = ssh_keys.generate(cast.owner, name="used", algorithm="ed25519")[0]
    ssh_keys.generate(cast.owner, name="unused", algorithm="ed25519")
    node.fault("create_disk", "full")
    instance = cast.instance(display_name="Shop front")
    wish = {"image_id": cast.image.id, "key_ids": [key.id], "cloudcfg": "package_update: true"}
    instances.deploy(instance, **wish, account=cast.owner, actor="owner@example.com")
    session.commit()
    run_tasks()
    task = get_task(instance, "instance_deploy")
    assert task.status == "failed"
    node.clear()
    browser = browser_as("owner")
    page = browser.get(f"/instances/{instance.id}").text
    assert task.error in page
    assert task.id in page
    assert "Try again" in page
    assert task.error in browser.get("/").text
    form = browser.get(f"/instances/{instance.id}/deploy").text
    assert f'value="{cast.image.id}" checked' in form
    assert re.findall(r'name="ssh_keys" value="([^"]+)" checked', form) == [key.id]
    assert "package_update: true" in form
    assert browser.post(f"/instances/{instance.id}/deploy", data={"image_id": UNKNOWN_ID}).status_code == 422
    answer = browser.post(
        f"/instances/{instance.id}/deploy", data={"image_id": cast.image.id, "password": "long enough"}
    )
    assert answer.headers["Location"] == f"/instances/{instance.id}"
    run_tasks()
    assert instance.state == "running"
    assert browser.get(f"/instances/{instance.id}/deploy").status_code == 404


def test_node_down_and_missing_machine_are_shown(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    cast.node.status = "down"
    session.commit()
    page = browser_as("owner").get(f"/instances/{instance.id}").text
    assert "The hypervisor does not respond" in page
    assert "as of" in browser_as("owner").get("/instances").text
    cast.node.status, instance.missing_on_node, instance.suspended_reason = "up", True, "admin"
    session.commit()
    page = browser_as("owner").get(f"/instances/{instance.id}").text
    assert "The hypervisor does not have this instance" in page
    assert "Suspended by the platform." in page


def test_running_task_shows_stage_and_bytes(browser_as, cast):
    instance = cast.instance()
    task, _ = instances.deploy(instance, image_id=cast.image.id, account=cast.owner, actor="test")
    task.status, task.stage, task.started_at = "running", "Copying the image", clock.now()
    task.bytes_done, task.bytes_total = 5 * 1024**2, 20 * 1024**2
    session.commit()
    page = browser_as("owner").get(f"/instances/{instance.id}", headers=PARTIAL_HEADERS).text
    assert "Copying the image" in page
    assert "5 MiB of 20 MiB" in page
    assert f"/tasks/{task.id}/cancel" in page
    assert "every 2s" in page


@pytest.mark.parametrize(("caller", "base"), [("owner", ""), ("admin", "/admin")])
def test_paused_guest_is_shown_and_can_be_started(browser_as, cast, run_tasks, caller, base):
    machine = create_deployed_instance(cast, run_tasks)
    browser, address = browser_as(caller), f"{base}/instances/{machine.id}"
    assert f'action="{address}/power/start"' not in browser.get(address).text
    state_reports.report_paused(machine, True)
    session.commit()
    page = browser.get(address).text
    assert "The hypervisor paused the guest" in page
    assert "The hypervisor paused the guest" in browser_as("owner").get("/").text
    assert f'action="{address}/power/start"' in page
    assert browser.post(f"{address}/power/start").status_code == 303
