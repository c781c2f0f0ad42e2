"""Operators' pages of backup policies."""

import pytest

from panel.core.db import session
from panel.models import BackupPolicy, BackupPolicyInstance, HypervisorGroup
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_policies
from tests.support.html_pages import PARTIAL_HEADERS

LIST_PATH = "/admin/backup-policies"
FIELDS = {name: "" if value is None else str(value) for name, value in DEFAULTS.items()}


@pytest.fixture
def browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def add_policy(browser):
    """Return a function that creates a policy by the form and returns it."""

    def add(**changes):
        answer = browser.post(f"{LIST_PATH}/new", data=FIELDS | {"name": "nightly", "retention_count": "7"} | changes)
        assert answer.status_code == 303, answer.text
        return session.get(BackupPolicy, answer.headers["Location"].rpartition("/")[2])

    return add


def test_policy_of_the_platform_is_created_and_changed(browser, add_policy):
    assert "No backup policies yet" in browser.get(LIST_PATH).text
    policy = add_policy(full_backup_time="03:15")
    assert (policy.account_id, policy.timezone, policy.retention_count) == (None, "UTC", 7)
    for text in (browser.get(LIST_PATH).text, browser.get(f"{LIST_PATH}/{policy.id}").text):
        assert "Daily at 03:15" in text
        assert "7 newest backups" in text
        assert "he platform" in text
    form = browser.get(f"{LIST_PATH}/{policy.id}/edit").text
    assert 'value="03:15"' in form
    assert 'name="owner"' not in form
    rules = {"retention_mode": "gfs", "keep_daily": "14", "keep_monthly": "6", "retention_count": ""}
    weekly = {"full_backup_frequency": "weekly", "full_backup_day": "0", "name": "weekly"}
    answer = browser.post(f"{LIST_PATH}/{policy.id}/edit", data=FIELDS | rules | weekly)
    assert answer.status_code == 303, answer.text
    text = browser.get(LIST_PATH).text
    assert "Sundays at 02:00" in text
    assert "14 daily, 6 monthly" in text


def test_policy_of_a_customer_has_its_time_zone(browser, add_policy, cast):
    cast.owner.timezone = "Europe/Berlin"
    session.commit()
    policy = add_policy(owner="Owner@example.com")
    assert (policy.account_id, policy.timezone) == (cast.owner.id, "Europe/Berlin")
    assert "owner@example.com" in browser.get(LIST_PATH).text
    assert "owner@example.com" in browser.get(f"{LIST_PATH}/{policy.id}").text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"owner": "nobody@example.com"}, "owner"),
        ({"owner": "nobody"}, "owner"),
        ({"full_backup_frequency": "weekly"}, "full_backup_day"),
        ({"full_backup_time": "25:00"}, "full_backup_time"),
        ({"retention_count": ""}, "retention_count"),
        ({"retention_count": "366"}, "retention_count"),
        ({"retention_mode": "gfs"}, "keep_last"),
        ({"keep_daily": "-1"}, "keep_daily"),
        ({"max_incremental_chain": "31"}, "max_incremental_chain"),
        ({"backup_device": "tape"}, "backup_device"),
    ],
)
def test_wrong_fields_are_refused_by_name(browser, changes, field):
    data = FIELDS | {"name": "nightly", "retention_count": "7"} | changes
    answer = browser.post(f"{LIST_PATH}/new", data=data)
    assert answer.status_code == 422
    assert f'id="wrong-{field}"' in answer.text
    assert session.query(BackupPolicy).count() == 0


def test_list_finds_policies(browser, add_policy, cast):
    add_policy(name="ours")
    add_policy(name="theirs", owner="owner@example.com")
    expected = {
        "": (True, True),
        "?scope=platform": (True, False),
        "?scope=customers": (False, True),
        "?search=OUR": (True, False),
        "?search=owner@": (False, True),
        "?scope=nonsense": (True, True),
    }
    found = {query: browser.get(f"{LIST_PATH}{query}", headers=PARTIAL_HEADERS).text for query in expected}
    assert {query: (">ours<" in text, ">theirs<" in text) for query, text in found.items()} == expected
    assert "No matching policies" in browser.get(f"{LIST_PATH}?search=zzz").text


def test_instances_are_attached_and_detached(browser, add_policy, cast):
    policy, instance, other = add_policy(), cast.instance(hostname="shop.example.com"), cast.instance()
    session.commit()
    path = f"{LIST_PATH}/{policy.id}"
    for text in ("shop.example.com", other.id):
        assert browser.post(f"{path}/attach", data={"instance": text}).status_code == 303
    page = browser.get(path).text
    assert "shop.example.com" in page
    assert f"/admin/instances/{other.id}/backups" in page
    assert backup_policies.count_instances([policy]) == {policy.id: 2}
    browser.post(f"{path}/detach/{instance.id}")
    assert backup_policies.count_instances([policy]) == {policy.id: 1}
    assert "not attached" in browser.post(f"{path}/detach/{instance.id}", headers=PARTIAL_HEADERS).text


def test_instance_that_does_not_fit_is_refused(browser, add_policy, cast):
    policy, foreign = add_policy(owner="owner@example.com"), cast.instance("outsider", hostname="foreign.example.com")
    cast.instance(hostname="a.example.net")
    cast.instance(hostname="b.example.net")
    taken = cast.instance(hostname="taken.example.com")
    backup_policies.attach(add_policy(name="other"), taken)
    session.commit()
    refused = {
        "": "This field is required.",
        "zzz": "No instance matches.",
        "example.net": "Several instances match. Enter the ID.",
        "nokey:x": "There is no key nokey.",
        foreign.id: "The policy belongs to another account than the instance.",
        taken.id: "The instance has another backup policy. Detach it first.",
    }
    for text, sentence in refused.items():
        answer = browser.post(f"{LIST_PATH}/{policy.id}/attach", data={"instance": text})
        assert answer.status_code in (409, 422)
        assert sentence in answer.text
    assert session.query(BackupPolicyInstance).count() == 1


def test_failures_are_shown_and_cleared(browser, add_policy):
    policy = add_policy()
    policy.failures, policy.last_error = 2, "Shop: the disk is full."
    session.commit()
    path = f"{LIST_PATH}/{policy.id}"
    for text in (browser.get(LIST_PATH).text, browser.get(path).text):
        assert "2 failures" in text
        assert "Shop: the disk is full." in text
    browser.post(f"{path}/reset-failures")
    assert session.get(BackupPolicy, policy.id, populate_existing=True).status == "active"
    assert "2 failures" not in browser.get(path).text


def test_policy_is_the_default_of_a_location_and_deleted(browser, add_policy, cast):
    policy, group_path = add_policy(), f"/admin/locations/{cast.location.id}"
    add_policy(name="of a customer", owner="owner@example.com")
    form = browser.get(group_path).text
    assert f'<option value="{policy.id}">nightly</option>' in form
    assert ">of a customer<" not in form
    names = {"name": cast.location.name, "display_name": cast.location.display_name}
    assert browser.post(group_path, data=names | {"default_backup_policy_id": policy.id}).status_code == 303
    assert "Default policy of" in browser.get(f"{LIST_PATH}/{policy.id}").text
    assert browser.post(f"{LIST_PATH}/{policy.id}/delete").status_code == 303
    assert session.get(HypervisorGroup, cast.location.id, populate_existing=True).default_backup_policy_id is None
    assert "Policy nightly deleted. Its backups stay." in browser.get(LIST_PATH).text


def test_list_takes_constant_number_of_queries(browser, add_policy, cast, queries):
    def count():
        queries.clear()
        browser.get(LIST_PATH)
        return len(queries)

    backup_policies.attach(add_policy(owner="owner@example.com"), cast.instance())
    session.commit()
    browser.get(LIST_PATH)
    before = count()
    for number in range(4):
        backup_policies.attach(add_policy(name=f"n{number}"), cast.instance())
    session.commit()
    browser.get(LIST_PATH)
    assert count() == before


def test_read_only_operator_changes_nothing(browser_as, add_policy, cast):
    policy = add_policy()
    cast.admin.operator_role = "read_only"
    session.commit()
    browser = browser_as("admin")
    assert browser.get(f"{LIST_PATH}/{policy.id}").status_code == 200
    for action in ("delete", "edit", "attach", "reset-failures"):
        assert browser.post(f"{LIST_PATH}/{policy.id}/{action}").status_code == 403
