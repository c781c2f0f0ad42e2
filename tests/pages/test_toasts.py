"""Toasts after an action: a queued action is reported as requested, not as done."""

import pytest

from panel.core import jobs
from panel.core.db import session
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
        ("/admin", "stop", "Stop requested."),
    ],
)
def test_toast_of_queued_action_says_requested(browser_as, instance, area, action, sentence):
    browser = browser_as("admin" if area else "owner")
    answer = browser.post(f"{area}/instances/{instance.id}/power/{action}", headers=PARTIAL_HEADERS)
    assert sentence in answer.text
    assert "alert-info" in answer.text
    assert "alert-success" not in answer.text


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
