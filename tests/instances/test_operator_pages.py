"""What an operator does with anybody's machine in the browser: its owner's tabs, with the operator's own rights."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, AuditEntry, Instance, SecurityGroup, Snapshot, SshKey, Task
from panel.pages.shared.instances.show import TABS
from panel.services import instances, security_groups, ssh_keys
from panel.services.instances import rescue
from tests.test_pages import PARTIAL_HEADERS, HtmlOutline


@pytest.fixture
def machine(cast, run_tasks):
    """The owner's, which runs."""
    made = cast.instance(display_name="Shop <front>")
    instances.deploy(made, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return session.get(Instance, made.id)


@pytest.fixture
def place(machine):
    return f"/admin/instances/{machine.id}"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def off_instance(operator, place, run_tasks):
    operator.post(f"{place}/power/poweroff")
    run_tasks()


def last_task():
    return session.scalar(select(Task).order_by(Task.id.desc()).limit(1))


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_there_for_operators_and_for_nobody_else(browser_as, cast, place, tab):
    address = place if tab == "overview" else f"{place}/{tab}"
    page = browser_as("admin").get(address)
    outline = HtmlOutline(page.text)
    assert (page.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    assert "Shop &lt;front&gt;" in page.text
    assert "Shop <front>" not in page.text
    assert browser_as("owner").get(address).status_code == 403
    part = browser_as("admin").get(address, headers=PARTIAL_HEADERS)
    assert ("<html" in part.text, part.status_code) == (False, 200)


def test_tabs_have_the_customers_words_and_stay_on_the_operators_side(browser_as, machine, place):
    for who, prefix in (("owner", f"/instances/{machine.id}"), ("admin", place)):
        page = browser_as(who).get(prefix).text
        for tab in TABS[1:]:
            assert f'href="{prefix}/{tab}"' in page, tab
    for tab in TABS:
        page = browser_as("admin").get(place if tab == "overview" else f"{place}/{tab}").text
        assert not re.search(r'(action|hx-post|hx-get)="/instances/', page), tab


def test_who_may_only_read_sees_everything_and_does_nothing(browser_as, app, cast, machine, place):
    cast.admin.operator_role = "read_only"
    session.commit()
    browser = browser_as("admin")
    for tab in TABS:
        assert browser.get(place if tab == "overview" else f"{place}/{tab}").status_code == 200
    tried = 0
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/admin/instances/<instance_id>") and "POST" in rule.methods:
            path = re.sub(r"<any\((\w+)[^)]*\):\w+>", r"\1", rule.rule).replace("<instance_id>", machine.id)
            assert browser.post(re.sub(r"<\w+>", "x", path)).status_code == 403, rule.rule
            tried += 1
    assert tried > 25
    assert "admin:instances:write" in browser.get(f"{place}/settings").text


def test_operators_in_support_act_on_machines_and_not_on_images(browser_as, cast, place, off_instance):
    cast.admin.operator_role = "support"
    session.commit()
    browser = browser_as("admin")
    assert browser.post(f"{place}/tags", data={"tags": "prod"}).status_code == 303
    assert browser.post(f"{place}/capture", data={"name": "golden"}).status_code == 403
    assert "admin:images:write" in browser.get(f"{place}/media").text


def test_a_reinstall_is_the_operators_deed(operator, cast, machine, place, run_tasks):
    """The operator is offered what is its owner's, and the log says who did it."""
    key = ssh_keys.create(
        cast.owner,
        name="laptop",
        public_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0zWyk8jJ0YzR3S8rTjQnS9l0lC6tqgYtCbm4sK5m1C",
    )
    session.commit()
    page = operator.get(f"{place}/reinstall").text
    assert key.id in page
    refused = operator.post(f"{place}/reinstall", data={"image_id": cast.image.id, "typed": "no"})
    assert (refused.status_code, 'id="wrong-typed"' in refused.text) == (422, True)
    answer = operator.post(f"{place}/reinstall", data={"image_id": cast.image.id, "typed": "Shop <front>"})
    assert answer.headers["Location"] == place
    task = last_task()
    assert (task.kind, task.actor) == ("instance_reinstall", "admin@example.com")
    entry = session.scalar(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1))
    assert "admin@example.com" in entry.person
    assert "shown only once" in operator.get(place).text
    assert "shown only once" not in operator.get(place).text
    run_tasks()
    assert session.get(Instance, machine.id).state == "running"


def test_a_key_that_is_added_on_the_way_is_the_owners(operator, cast, place, off_instance):
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0zWyk8jJ0YzR3S8rTjQnS9l0lC6tqgYtCbm4sK5m1C op"
    data = {"image_id": cast.image.id, "typed": "Shop <front>", "key_name": "new", "public_key": line}
    assert operator.post(f"{place}/reinstall", data=data).status_code == 303
    assert session.scalar(select(SshKey)).account_id == cast.owner.id


def test_the_configuration_that_a_customer_typed_is_not_shown(operator, cast, browser_as):
    made = cast.instance()
    instances.deploy(made, image_id=cast.image.id, actor="test", cloudcfg="#cloud-config\npackages: [secret-thing]")
    task = last_task()
    task.status = "failed"
    made.rebuilding = False
    session.commit()
    assert "secret-thing" not in operator.get(f"/admin/instances/{made.id}/deploy").text


def test_the_password_of_root(operator, machine, place, run_tasks):
    assert operator.post(f"{place}/reset-password").headers["Location"] == place
    assert (last_task().kind, last_task().actor) == ("instance_reset_password", "admin@example.com")
    assert "shown only once" in operator.get(place).text
    run_tasks()


def test_the_rescue_systems_password_is_for_who_may_act(operator, browser_as, cast, machine, place, monkeypatch):
    monkeypatch.setattr(
        rescue,
        "describe_state",
        lambda _: {"active": True, "since": machine.created_at, "username": "root", "password": "kX2v-9"},
    )
    assert "kX2v-9" in operator.get(f"{place}/media").text
    cast.admin.operator_role = "read_only"
    session.commit()
    assert "kX2v-9" not in browser_as("admin").get(f"{place}/media").text


def test_disks_are_added_and_grown(operator, machine, place, run_tasks):
    page = operator.get(f"{place}/storage").text
    assert "Add disk" in page
    answer = operator.post(f"{place}/disks/add", data={"size": "5"})
    assert answer.headers["Location"] == f"{place}/storage"
    run_tasks()
    added = session.get(Instance, machine.id).disks[1]
    assert (added.size, added.attached) == (5, True)
    operator.post(f"{place}/disks/grow", data={"disk_id": added.id, "new_size": "7"})
    run_tasks()
    assert session.get(Instance, machine.id).disks[1].size == 7
    refused = operator.post(f"{place}/disks/grow", data={"disk_id": added.id, "new_size": "6"}, headers=PARTIAL_HEADERS)
    assert ("<html" in refused.text, 'id="room"' in refused.text, "made smaller" in refused.text) == (False, True, True)
    assert operator.post(f"{place}/disks/add", data={"size": "90000"}).status_code == 422
    operator.post(f"{place}/disk/{added.id}/detach")
    run_tasks()
    operator.post(f"{place}/disk/{added.id}/delete")
    run_tasks()
    assert len(session.get(Instance, machine.id).disks) == 1


def test_snapshots_and_live_sessions(operator, machine, place, run_tasks):
    assert (
        operator.post(f"{place}/snapshots/take", data={"snapname": "before"}).headers["Location"]
        == f"{place}/snapshots"
    )
    run_tasks()
    taken = session.scalar(select(Snapshot))
    assert taken.status == "available"
    assert "before" in operator.get(f"{place}/snapshots").text
    wrong = operator.post(f"{place}/snapshots/take", data={"snapname": "no good"})
    assert wrong.status_code == 422
    operator.post(f"{place}/snapshots/before/delete")
    run_tasks()
    assert operator.post(f"{place}/forge/enable").headers["Location"] == f"{place}/snapshots"
    run_tasks()
    assert "Commit" in operator.get(f"{place}/snapshots").text
    operator.post(f"{place}/forge/commit")
    run_tasks()
    assert session.get(Instance, machine.id).forges[-1].status == "committed"


def test_settings_tags_plan_and_name(operator, cast, machine, place, run_tasks):
    data = {"display_name": "Front", "hostname": "front.example.com", "notes": "n", "protection_enabled": "true"}
    assert operator.post(f"{place}/settings", data=data).headers["Location"] == f"{place}/settings"
    row = session.get(Instance, machine.id)
    assert (row.display_name, row.notes, row.protection_enabled) == ("Front", "n", True)
    assert operator.post(f"{place}/settings", data={"hostname": "a--b"}).status_code == 422
    operator.post(f"{place}/tags", data={"tags": "prod, web"})
    assert session.get(Instance, machine.id).tags == ["prod", "web"]
    operator.post(f"{place}/rename", data={"display_name": "Back"})
    assert session.get(Instance, machine.id).display_name == "Back"
    assert "Other plans" in operator.get(f"{place}/change-plan").text


def test_the_firewall_offers_what_is_the_owners_and_the_platforms(operator, cast, machine, place):
    groups = {
        name: security_groups.create(account, name=name)
        for name, account in (("own", cast.owner), ("platform", None), ("foreign", cast.outsider))
    }
    session.commit()
    page = operator.get(f"{place}/network").text
    assert (groups["own"].id in page, groups["platform"].id in page, groups["foreign"].id in page) == (
        True,
        True,
        False,
    )
    data = {"instance_ids": machine.id, "back": machine.id, "confirmed": "1"}
    answer = operator.post(f"/admin/security-groups/{groups['own'].id}/attach", data=data)
    assert answer.headers["Location"] == f"{place}/network"
    assert len(session.get(SecurityGroup, groups["own"].id).members) == 1
    operator.post(f"/admin/security-groups/{groups['foreign'].id}/attach", data=data)
    assert session.get(SecurityGroup, groups["foreign"].id).members == []


def test_an_image_of_a_customers_machine_is_the_customers(operator, cast, machine, place, off_instance):
    operator.post(f"{place}/capture", data={"name": "golden"})
    task = last_task()
    assert (task.kind, task.account_id, task.actor) == ("image_capture", cast.owner.id, "admin@example.com")


def test_a_page_that_was_open_goes_back_to_the_list(operator, machine, place, run_tasks):
    operator.post(f"{place}/destroy", data={"typed": machine.name})
    run_tasks()
    gone = operator.get(place, headers=PARTIAL_HEADERS)
    assert gone.headers["HX-Redirect"] == "/admin/instances"


def test_nobody_elses_account_is_needed(browser_as, place):
    """Operators act with their role, whatever their own account has."""
    session.scalar(select(Account).where(Account.email == "admin@example.com")).self_provisioning = False
    session.commit()
    assert browser_as("admin").post(f"{place}/tags", data={"tags": "x"}).status_code == 303
