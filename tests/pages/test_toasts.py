"""What people are told after an action: only what is true when it is said (finding M3)."""

import pytest

from panel.core import jobs
from panel.core.db import session
from panel.services import security_groups
from tests.instances.test_pages import create_deployed_instance
from tests.test_pages import PARTIAL_HEADERS


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
def test_a_queued_action_is_requested_and_has_no_green_tick(browser_as, instance, area, action, sentence):
    browser = browser_as("admin" if area else "owner")
    answer = browser.post(f"{area}/instances/{instance.id}/power/{action}", headers=PARTIAL_HEADERS)
    assert sentence in answer.text
    assert "alert-info" in answer.text
    assert "alert-success" not in answer.text


def test_what_is_done_in_the_request_has_the_tick(browser_as, instance):
    answer = browser_as("owner").post(f"/instances/{instance.id}/tags", data={"tags": "prod"}, headers=PARTIAL_HEADERS)
    assert "alert-success" in answer.text


def test_a_bulk_action_says_what_was_requested(browser_as, instance):
    sent = {"ids": [instance.id], "action": "restart"}
    page = browser_as("owner").post("/instances/bulk", data=sent).text
    assert "Restart requested for 1 instance." in page
    assert "refused" not in page
    assert "text-green" not in page
    page = (
        browser_as("owner").post("/instances/bulk", data={"ids": [instance.id], "action": "add_tag", "tag": "x"}).text
    )
    assert "Add tag done for 1 instance." in page.replace(" “x”", "")
    assert "text-green" in page


def test_a_group_says_that_firewalls_follow(browser_as, cast, instance):
    group = security_groups.create(cast.owner, name="web")
    session.commit()
    rule = {"direction": "ingress", "protocol": "tcp", "ip_version": "ipv4", "ports": "22"}
    browser, address = browser_as("owner"), f"/security-groups/{group.id}"
    answer = browser.post(f"{address}/rules", data=rule, headers=PARTIAL_HEADERS)
    assert "Firewall update requested" not in answer.text  # nobody has the group
    assert "alert-success" in answer.text
    answer = browser.post(f"{address}/attach", data={"instance_ids": instance.id}, headers=PARTIAL_HEADERS)
    assert "Added to the security group. Firewall update requested." in answer.text
    assert "alert-info" in answer.text


def test_a_transaction_knows_whether_it_queued_a_task(rolled_back_app, cast):
    assert not jobs.has_queued_tasks()
    cast.instance()
    assert not jobs.has_queued_tasks()


def test_a_script_is_told_a_reason_only_where_there_is_one(browser_as, instance):
    script = {"Accept": "application/json"}
    missing = browser_as("owner").post("/instances/none/console", headers=script)
    assert missing.status_code == 404
    assert missing.json.keys() == {"success", "message"}
