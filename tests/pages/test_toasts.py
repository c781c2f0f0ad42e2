"""What pages say of an action: that it is requested, then what its task does, then that it is done or has failed."""

import pytest
from lxml import html

from panel.core import clock, jobs
from panel.core.db import session
from panel.pages.customer.tasks import FAILURE_AGE, RESULT_AGE
from panel.services import security_groups
from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.instances import create_deployed_instance


@pytest.fixture
def instance(cast, run_tasks):
    return create_deployed_instance(cast, run_tasks)


@pytest.mark.parametrize(
    ("area", "action", "sentence"),
    [
        ("", "restart", "Restart requested."),
        ("", "poweroff", "Power off requested."),
        ("", "shutdown", "Shut down requested."),
        ("/admin", "restart", "Restart requested."),
        ("/admin", "shutdown", "Shut down requested."),
    ],
)
def test_toast_of_queued_action_says_requested(browser_as, instance, area, action, sentence):
    browser = browser_as("admin" if area else "owner")
    answer = browser.post(f"{area}/instances/{instance.id}/power/{action}", headers=PARTIAL_HEADERS)
    assert sentence in answer.text
    assert "alert-info" in answer.text
    assert "alert-success" not in answer.text


@pytest.mark.parametrize(
    ("action", "label"),
    [("restart", "Restarting"), ("poweroff", "Powering off"), ("shutdown", "Shutting down"), ("stop", "Stopping")],
)
def test_state_says_what_the_task_does_until_it_has_ended(api_as, browser_as, instance, run_tasks, action, label):
    """INS-05: the state of the API keeps its five words."""
    pages = [
        ("owner", "/instances"),
        ("owner", f"/instances/{instance.id}"),
        ("owner", "/"),
        ("owner", f"/search?q={instance.name}"),
        ("admin", "/admin/instances"),
        ("admin", f"/admin/instances/{instance.id}"),
    ]
    state = api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"]
    api_as("owner", "POST", f"/api/instance/{instance.id}/power/{action}")
    assert [path for caller, path in pages if label not in browser_as(caller).get(path).text] == []
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"] == state == "running"
    run_tasks()
    assert [path for caller, path in pages if label in browser_as(caller).get(path).text] == []


def test_state_shows_the_running_task_before_the_next(browser_as, instance):
    for kind, status in (("instance_start", "queued"), ("instance_restart", "running")):
        jobs.enqueue(kind, "instance", instance, lock="light", actor="test").status = status
    session.commit()
    session.expire_all()
    page = browser_as("owner").get("/instances").text
    assert ("Restarting" in page, "Starting" in page) == (True, False)


@pytest.mark.parametrize(
    ("status", "text", "level"),
    [
        ("completed", "Restart finished: ", "alert-success"),
        ("failed", "Restart failed: ", "alert-danger"),
        ("cancelled", "Restart cancelled: ", "alert-info"),
    ],
)
def test_result_of_own_task_becomes_a_message(browser_as, cast, instance, status, text, level):
    for actor in (cast.owner.email, "system"):
        task = jobs.enqueue("instance_restart", "instance", instance, lock="light", actor=actor)
        task.status, task.finished_at, task.error = status, clock.now(), "The hypervisor does not respond."
    session.commit()
    results = html.fromstring(browser_as("owner").get("/tasks/tray", headers=PARTIAL_HEADERS).text).xpath("//template")
    [restart] = [result for result in results if "Restart" in result.text_content()]
    assert (text in restart.text_content(), bool(restart.xpath(f".//*[contains(@class, '{level}')]"))) == (True, True)
    assert ("The hypervisor does not respond." in restart.text_content()) == (status == "failed")
    assert bool(restart.xpath(".//a")) == (status == "failed")


def test_old_results_are_no_messages(browser_as, cast, instance):
    task = jobs.enqueue("instance_restart", "instance", instance, lock="light", actor=cast.owner.email)
    task.status, task.finished_at = "completed", clock.now() - RESULT_AGE
    session.commit()
    assert "Restart finished" not in browser_as("owner").get("/tasks/tray", headers=PARTIAL_HEADERS).text


def test_toast_of_immediate_action_says_success(browser_as, instance):
    answer = browser_as("owner").post(f"/instances/{instance.id}/tags", data={"tags": "prod"}, headers=PARTIAL_HEADERS)
    assert "alert-success" in answer.text


def test_bulk_result_says_requested_or_done(browser_as, instance):
    form = {"ids": [instance.id], "action": "restart"}
    page = browser_as("owner").post("/instances/bulk", data=form).text
    assert "Restart requested for 1 instance." in page
    assert "refused" not in page
    assert "text-green" not in page
    page = (
        browser_as("owner").post("/instances/bulk", data={"ids": [instance.id], "action": "add_tag", "tag": "x"}).text
    )
    assert "Add tag done for 1 instance." in page.replace(" “x”", "")
    assert "text-green" in page


def test_toast_of_security_group_change_mentions_firewall_update(browser_as, cast, instance):
    group = security_groups.create(cast.owner, name="web")
    session.commit()
    rule = {"direction": "ingress", "protocol": "tcp", "ip_version": "ipv4", "ports": "22"}
    browser, address = browser_as("owner"), f"/security-groups/{group.id}"
    answer = browser.post(f"{address}/rules", data=rule, headers=PARTIAL_HEADERS)
    assert "Firewall update requested" not in answer.text  # the group has no instances
    assert "alert-success" in answer.text
    answer = browser.post(f"{address}/attach", data={"instance_ids": instance.id}, headers=PARTIAL_HEADERS)
    assert "Added to the security group. Firewall update requested." in answer.text
    assert "alert-info" in answer.text


def test_instance_row_without_deploy_queues_no_task(rolled_back_app, cast):
    assert not jobs.has_queued_tasks()
    cast.instance()
    assert not jobs.has_queued_tasks()


def test_json_error_without_reason_omits_the_key(browser_as, instance):
    script = {"Accept": "application/json"}
    missing = browser_as("owner").post("/instances/none/console", headers=script)
    assert missing.status_code == 404
    assert missing.json.keys() == {"success", "message"}


def read_task_button(browser):
    """Return the accessible name of the button of the tasks, and the number on its mark for failures."""
    button = html.fromstring(browser.get("/").text).xpath("//button[@id='recent-tasks-button']")[0]
    marks = button.xpath(".//span[contains(@class, 'badge-failed')]")
    return button.get("aria-label"), [mark.text for mark in marks], button.get("data-newest-failure")


def test_task_button_marks_failures_until_the_menu_was_opened(browser_as, instance):
    browser = browser_as("owner")
    assert read_task_button(browser) == ("Active tasks: 0", [], None)
    tasks = [jobs.enqueue("instance_start", "instance", instance, lock="light", actor="api") for _ in range(3)]
    for task, status in zip(tasks, ("failed", "completed", "failed"), strict=True):
        task.status, task.finished_at = status, clock.now()
    session.commit()
    assert read_task_button(browser) == ("Active tasks: 0, failed: 2", ["2"], tasks[2].id)
    browser.set_cookie("panel-seen-task", tasks[0].id)
    assert read_task_button(browser) == ("Active tasks: 0, failed: 1", ["1"], tasks[2].id)
    browser.set_cookie("panel-seen-task", tasks[2].id)
    assert read_task_button(browser) == ("Active tasks: 0", [], None)


def test_task_button_marks_no_failures_of_earlier_days(browser_as, instance):
    task = jobs.enqueue("instance_start", "instance", instance, lock="light", actor="api")
    task.status, task.finished_at = "failed", clock.now() - FAILURE_AGE - RESULT_AGE
    session.commit()
    assert read_task_button(browser_as("owner"))[1] == []
