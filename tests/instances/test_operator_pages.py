"""Customers' instances on the operators' pages: the owner's tabs, with the operator's own permissions."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, AuditEntry, Instance, SecurityGroup, Snapshot, SshKey, Task
from panel.pages.shared.instances.show import INSTANCE_TABS
from panel.services import instances, security_groups, ssh_keys
from panel.services.instances import rescue
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline


@pytest.fixture
def machine(cast, run_tasks):
    """A running instance of the owner."""
    instance = cast.instance(display_name="Shop <front>")
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    return session.get(Instance, instance.id)


@pytest.fixture
def instance_path(machine):
    return f"/admin/instances/{machine.id}"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def stopped_instance(operator_browser, instance_path, run_tasks):
    operator_browser.post(f"{instance_path}/power/poweroff")
    run_tasks()


def get_last_task():
    return session.scalar(select(Task).order_by(Task.id.desc()).limit(1))


@pytest.mark.parametrize("tab", INSTANCE_TABS)
def test_admin_instance_tab_is_only_for_operators(browser_as, cast, instance_path, tab):
    address = instance_path if tab == "overview" else f"{instance_path}/{tab}"
    page = browser_as("admin").get(address)
    outline = HtmlOutline(page.text)
    assert (page.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    assert "Shop &lt;front&gt;" in page.text
    assert "Shop <front>" not in page.text
    assert browser_as("owner").get(address).status_code == 403
    part = browser_as("admin").get(address, headers=PARTIAL_HEADERS)
    assert ("<html" in part.text, part.status_code) == (False, 200)


def test_admin_instance_tabs_link_only_to_admin_pages(browser_as, machine, instance_path):
    for caller, prefix in (("owner", f"/instances/{machine.id}"), ("admin", instance_path)):
        page = browser_as(caller).get(prefix).text
        for tab in INSTANCE_TABS[1:]:
            assert f'href="{prefix}/{tab}"' in page, tab
    for tab in INSTANCE_TABS:
        page = browser_as("admin").get(instance_path if tab == "overview" else f"{instance_path}/{tab}").text
        assert not re.search(r'(action|hx-post|hx-get)="/instances/', page), tab


def test_read_only_operator_sees_all_tabs_and_changes_nothing(browser_as, app, cast, machine, instance_path):
    cast.admin.operator_role = "read_only"
    session.commit()
    browser = browser_as("admin")
    for tab in INSTANCE_TABS:
        assert browser.get(instance_path if tab == "overview" else f"{instance_path}/{tab}").status_code == 200
    tried = 0
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/admin/instances/<instance_id>") and "POST" in rule.methods:
            path = re.sub(r"<any\((\w+)[^)]*\):\w+>", r"\1", rule.rule).replace("<instance_id>", machine.id)
            assert browser.post(re.sub(r"<\w+>", "x", path)).status_code == 403, rule.rule
            tried += 1
    assert tried > 25
    assert "admin:instances:write" in browser.get(f"{instance_path}/settings").text


def test_support_operator_changes_instances_but_not_images(browser_as, cast, instance_path, stopped_instance):
    cast.admin.operator_role = "support"
    session.commit()
    browser = browser_as("admin")
    assert browser.post(f"{instance_path}/tags", data={"tags": "prod"}).status_code == 303
    assert browser.post(f"{instance_path}/capture", data={"name": "golden"}).status_code == 403
    assert "admin:images:write" in browser.get(f"{instance_path}/media").text


def test_reinstall_by_operator_is_audited_as_operator(operator_browser, cast, machine, instance_path, run_tasks):
    """The form offers the owner's keys, and the audit log names the operator."""
    key = ssh_keys.create(
        cast.owner,
        name="laptop",
        public_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0zWyk8jJ0YzR3S8rTjQnS9l0lC6tqgYtCbm4sK5m1C",
    )
    session.commit()
    page = operator_browser.get(f"{instance_path}/reinstall").text
    assert key.id in page
    refused = operator_browser.post(f"{instance_path}/reinstall", data={"image_id": cast.image.id, "typed": "no"})
    assert (refused.status_code, 'id="wrong-typed"' in refused.text) == (422, True)
    answer = operator_browser.post(
        f"{instance_path}/reinstall", data={"image_id": cast.image.id, "typed": "Shop <front>"}
    )
    assert answer.headers["Location"] == instance_path
    task = get_last_task()
    assert (task.kind, task.actor) == ("instance_reinstall", "admin@example.com")
    entry = session.scalar(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1))
    assert "admin@example.com" in entry.person
    assert "shown only once" in operator_browser.get(instance_path).text
    assert "shown only once" not in operator_browser.get(instance_path).text
    run_tasks()
    assert session.get(Instance, machine.id).state == "running"


def test_ssh_key_added_at_reinstall_belongs_to_owner(operator_browser, cast, instance_path, stopped_instance):
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0zWyk8jJ0YzR3S8rTjQnS9l0lC6tqgYtCbm4sK5m1C op"
    data = {"image_id": cast.image.id, "typed": "Shop <front>", "key_name": "new", "public_key": line}
    assert operator_browser.post(f"{instance_path}/reinstall", data=data).status_code == 303
    assert session.scalar(select(SshKey)).account_id == cast.owner.id


def test_customer_cloudcfg_is_hidden_from_operator(operator_browser, cast, browser_as):
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test", cloudcfg="#cloud-config\npackages: [secret-thing]")
    task = get_last_task()
    task.status = "failed"
    instance.rebuilding = False
    session.commit()
    assert "secret-thing" not in operator_browser.get(f"/admin/instances/{instance.id}/deploy").text


def test_operator_resets_root_password(operator_browser, machine, instance_path, run_tasks):
    assert operator_browser.post(f"{instance_path}/reset-password").headers["Location"] == instance_path
    assert (get_last_task().kind, get_last_task().actor) == ("instance_reset_password", "admin@example.com")
    assert "shown only once" in operator_browser.get(instance_path).text
    run_tasks()


def test_rescue_password_is_hidden_from_read_only_operator(
    operator_browser, browser_as, cast, machine, instance_path, monkeypatch
):
    monkeypatch.setattr(
        rescue,
        "describe_state",
        lambda _: {"active": True, "since": machine.created_at, "username": "root", "password": "kX2v-9"},
    )
    assert "kX2v-9" in operator_browser.get(f"{instance_path}/media").text
    cast.admin.operator_role = "read_only"
    session.commit()
    assert "kX2v-9" not in browser_as("admin").get(f"{instance_path}/media").text


def test_operator_adds_grows_and_deletes_disk(operator_browser, machine, instance_path, run_tasks):
    page = operator_browser.get(f"{instance_path}/storage").text
    assert "Add disk" in page
    answer = operator_browser.post(f"{instance_path}/disks/add", data={"size": "5"})
    assert answer.headers["Location"] == f"{instance_path}/storage"
    run_tasks()
    added = session.get(Instance, machine.id).disks[1]
    assert (added.size, added.attached) == (5, True)
    operator_browser.post(f"{instance_path}/disks/grow", data={"disk_id": added.id, "new_size": "7"})
    run_tasks()
    assert session.get(Instance, machine.id).disks[1].size == 7
    refused = operator_browser.post(
        f"{instance_path}/disks/grow", data={"disk_id": added.id, "new_size": "6"}, headers=PARTIAL_HEADERS
    )
    assert ("<html" in refused.text, 'id="room"' in refused.text, "made smaller" in refused.text) == (False, True, True)
    assert operator_browser.post(f"{instance_path}/disks/add", data={"size": "90000"}).status_code == 422
    operator_browser.post(f"{instance_path}/disk/{added.id}/detach")
    run_tasks()
    operator_browser.post(f"{instance_path}/disk/{added.id}/delete")
    run_tasks()
    assert len(session.get(Instance, machine.id).disks) == 1


def test_operator_uses_snapshots_and_live_sessions(operator_browser, machine, instance_path, run_tasks):
    assert (
        operator_browser.post(f"{instance_path}/snapshots/take", data={"snapname": "before"}).headers["Location"]
        == f"{instance_path}/snapshots"
    )
    run_tasks()
    taken = session.scalar(select(Snapshot))
    assert taken.status == "available"
    assert "before" in operator_browser.get(f"{instance_path}/snapshots").text
    wrong = operator_browser.post(f"{instance_path}/snapshots/take", data={"snapname": "no good"})
    assert wrong.status_code == 422
    operator_browser.post(f"{instance_path}/snapshots/before/delete")
    run_tasks()
    assert operator_browser.post(f"{instance_path}/forge/enable").headers["Location"] == f"{instance_path}/snapshots"
    run_tasks()
    assert "Commit" in operator_browser.get(f"{instance_path}/snapshots").text
    operator_browser.post(f"{instance_path}/forge/commit")
    run_tasks()
    assert session.get(Instance, machine.id).forges[-1].status == "committed"


def test_operator_changes_settings_tags_and_name(operator_browser, cast, machine, instance_path, run_tasks):
    data = {"display_name": "Front", "hostname": "front.example.com", "notes": "n", "protection_enabled": "true"}
    assert (
        operator_browser.post(f"{instance_path}/settings", data=data).headers["Location"] == f"{instance_path}/settings"
    )
    row = session.get(Instance, machine.id)
    assert (row.display_name, row.notes, row.protection_enabled) == ("Front", "n", True)
    assert operator_browser.post(f"{instance_path}/settings", data={"hostname": "a--b"}).status_code == 422
    operator_browser.post(f"{instance_path}/tags", data={"tags": "prod, web"})
    assert session.get(Instance, machine.id).tags == ["prod", "web"]
    operator_browser.post(f"{instance_path}/rename", data={"display_name": "Back"})
    assert session.get(Instance, machine.id).display_name == "Back"
    assert "Other plans" in operator_browser.get(f"{instance_path}/change-plan").text


def test_operator_attaches_only_groups_of_owner_or_platform(operator_browser, cast, machine, instance_path):
    groups = {
        name: security_groups.create(account, name=name)
        for name, account in (("own", cast.owner), ("platform", None), ("foreign", cast.outsider))
    }
    session.commit()
    page = operator_browser.get(f"{instance_path}/network").text
    assert (groups["own"].id in page, groups["platform"].id in page, groups["foreign"].id in page) == (
        True,
        True,
        False,
    )
    data = {"instance_ids": machine.id, "back": machine.id, "confirmed": "1"}
    answer = operator_browser.post(f"/admin/security-groups/{groups['own'].id}/attach", data=data)
    assert answer.headers["Location"] == f"{instance_path}/network"
    assert len(session.get(SecurityGroup, groups["own"].id).members) == 1
    operator_browser.post(f"/admin/security-groups/{groups['foreign'].id}/attach", data=data)
    assert session.get(SecurityGroup, groups["foreign"].id).members == []


def test_image_captured_by_operator_belongs_to_owner(operator_browser, cast, machine, instance_path, stopped_instance):
    operator_browser.post(f"{instance_path}/capture", data={"name": "golden"})
    task = get_last_task()
    assert (task.kind, task.account_id, task.actor) == ("image_capture", cast.owner.id, "admin@example.com")


def test_partial_of_destroyed_instance_redirects_to_list(operator_browser, machine, instance_path, run_tasks):
    operator_browser.post(f"{instance_path}/destroy", data={"typed": machine.name})
    run_tasks()
    gone = operator_browser.get(instance_path, headers=PARTIAL_HEADERS)
    assert gone.headers["HX-Redirect"] == "/admin/instances"


def test_operator_access_does_not_depend_on_own_account(browser_as, instance_path):
    """Operators act with their role, whatever their own account allows."""
    session.scalar(select(Account).where(Account.email == "admin@example.com")).self_provisioning = False
    session.commit()
    assert browser_as("admin").post(f"{instance_path}/tags", data={"tags": "x"}).status_code == 303
