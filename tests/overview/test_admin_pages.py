"""The operators' overview, and rules of all admin pages."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select
from uuid_utils import uuid7

from panel.core import clock
from panel.core.db import session
from panel.models import (
    BackupRestoreTest,
    DockerDeployment,
    Hypervisor,
    Instance,
    InstanceBackup,
    Iso,
    Snapshot,
    Storage,
    Subnet,
    Task,
)
from panel.schemas.backup_policies import DEFAULTS
from panel.services import (
    announcements,
    audit,
    backup_destinations,
    backup_policies,
    brands,
    installation_backups,
    instances,
    ip_sets,
    mail_templates,
    mass_mail_templates,
    mass_mails,
    microvms,
    operator_roles,
    overview,
    resource_packs,
    security_groups,
    subnets,
    unmanaged_machines,
    volume_plans,
    volumes,
    workers,
)
from panel.services.instance_backups.create import get_or_create_repository
from panel.services.microvms import pools, profiles
from tests.support.html_pages import PARTIAL_HEADERS, find_attention_items
from tests.support.microvms import register_image
from worker.nodes.base import Machine

UNMANAGED_ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    monkeypatch.setattr(workers, "count_alive", lambda: 2)


@pytest.fixture
def load_overview(browser_as):
    """Return a function that loads the overview as an operator."""
    browser = browser_as("admin")
    return lambda: browser.get("/admin").text


@pytest.fixture
def deployed(cast, run_tasks, node):
    """A deployed instance, beside a machine on the node that the panel does not manage."""
    deployed = cast.instance()
    instances.deploy(deployed, image_id=cast.image.id, actor="test")
    node.define(Machine(UNMANAGED_ID, "unmanaged-vm", 1, 256, ()))
    unmanaged_machines.discover(cast.node, actor="test")
    session.commit()
    run_tasks()
    return deployed


def create_archive_destination():
    """Add a destination of installation backups, and a run in it."""
    destination = installation_backups.create_destination(
        name="offsite", storage_type="local", config={"path": "/nowhere"}
    )
    installation_backups.create_run(destination, actor="test", is_scheduled=True)
    return destination


@pytest.fixture
def page_ids(cast, deployed):
    """Create one row of each kind. Return a function that returns the ids for the address of a rule."""
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    firewall = security_groups.create(cast.owner, name="web")
    rule = security_groups.add_rule(
        firewall, cast.owner, actor="test", direction="ingress", protocol="all", ip_version="ipv4"
    )
    networks = ip_sets.create(cast.owner, name="offices", ip_version="ipv4")
    plan = volume_plans.create(volume_plans.create_group(name="ssd"), name="small", size=1, price=1)
    session.commit()
    body = {"name": "data", "volume_plan_id": plan.id, "hypervisor_group_id": cast.location.id}
    volume = volumes.create(cast.owner, actor="test", **body)
    iso = Iso(name="rescue", filename="rescue.iso", url="https://example.com/rescue.iso")
    deployment = DockerDeployment(instance_id=deployed.id, app_slug="nginx", app_name="nginx", project_name="nginx-1")
    session.add_all([iso, deployment])
    session.flush()
    size = {"cpu_cores": 1, "ram": 512, "storage": 10}
    ids = {
        "pack_id": resource_packs.create(user_id=cast.owner.id, name="pack", **size).id,
        "instance_id": instance.id,
        "iso_id": iso.id,
        "account_id": cast.owner.id,
        "volume_id": volume.id,
        "hypervisor_id": cast.node.id,
        "machine_id": UNMANAGED_ID,
        "storage_id": session.scalar(select(Storage.id)),
        "group_id": cast.location.id,
        "plan_id": cast.plan.id,
        "plan_group_id": cast.plan.plan_group_id,
        "image_id": cast.image.id,
        "subnet_id": session.scalar(select(Subnet.id)),
        "task_id": session.scalar(select(Task.id)),
        "entry_id": audit.add_failed_sign_in("owner@example.com", ip="203.0.113.9", action="sign_in.start").id,
    }
    ids |= {"address_id": instance.addresses[0].id, "tab": "settings", "set_id": networks.id}
    ids |= {"slug": "nginx", "deployment_id": deployment.id}
    ids["profile_id"] = profiles.create(hypervisor_id=cast.node.id).id
    microvm_image = register_image()
    ids["pool_id"] = pools.create(hypervisor_id=cast.node.id, image_id=microvm_image.id, count=1).id
    microvm = {"location_id": cast.location.id, "image_id": microvm_image.id, "name": "worker", "actor": "test"}
    ids["microvm_id"] = microvms.create(cast.owner, **microvm).id
    ids_by_blueprint = {
        "admin_security_groups": {"group_id": firewall.id, "rule_id": rule.id},
        "admin_microvm_images": {"image_id": microvm_image.id},
        "admin_installation_backups": {"destination_id": create_archive_destination().id},
        "admin_volume_plans": {"group_id": plan.volume_plan_group_id, "plan_id": plan.id},
    }
    destination = backup_destinations.create(name="b", storage_type="local", config={"path": "/nowhere"})
    repository = get_or_create_repository(destination, cast.owner.id)
    names = {"name": "nightly", "recorded_name": "Shop", "recorded_hostname": "shop", "backup_type": "full"}
    backup = InstanceBackup(account_id=cast.owner.id, instance_id=deployed.id, repository=repository, **names)
    backup.destination, backup.status = destination, "complete"
    session.add(backup)
    session.flush()
    ids |= {"destination_id": destination.id, "backup_id": backup.id}
    place = {"hypervisor_id": cast.node.id, "storage_id": ids["storage_id"], "account_id": cast.owner.id}
    test = BackupRestoreTest(**place, instance_id=deployed.id, backup_id=backup.id, name="Shop", backup_at=clock.now())
    test.screenshot, test.has_screenshot = b"image", True
    session.add(test)
    session.flush()
    ids["test_id"] = test.id
    ids["policy_id"] = backup_policies.create(None, **DEFAULTS | {"name": "nightly", "retention_count": 1}).id
    ends_at = clock.now() + timedelta(days=1)
    ids["announcement_id"] = announcements.create(kind="maintenance", name="n", text="t", ends_at=ends_at).id
    ids["brand_id"] = brands.save(None, name="n", host="n.example.com").id
    ids["template_id"] = mail_templates.list_all()[0].id
    ids["mass_mail_id"] = mass_mails.create(name="n", text="t", mails_per_minute=1).id
    ids["mass_mail_template_id"] = mass_mail_templates.create(name="n", subject="s", text="t").id
    ids["role_name"] = operator_roles.create(name="network", permissions=[]).name
    ids["job_id"] = backup_policies.create_job(cast.location, plan_id=ids["policy_id"]).id
    session.commit()
    facts = {"name": "before", "status": "available", "cpu_cores": 1, "ram": 512, "disk_ids": []}
    session.add(Snapshot(instance_id=deployed.id, **facts))
    session.commit()

    def get_ids(rule):
        values = ids | ids_by_blueprint.get(rule.endpoint.partition(".")[0], {})
        if rule.endpoint == "admin_instances.show_reinstall_form" or "<deployment_id>" in rule.rule:
            values["instance_id"] = deployed.id
        if rule.endpoint == "admin_instances.choose_rollback":
            values |= {"instance_id": deployed.id, "name": "before"}
        return values

    return get_ids


def test_all_admin_pages_open(app, browser_as, page_ids):
    """With one row of each kind, every page answers 200, whole and partial, without inline styles and scripts."""
    checked_pages, browser = 0, browser_as("admin")
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/admin") and "GET" in rule.methods and not rule.rule.endswith("/secrets"):
            address = fill_address(rule, page_ids(rule))
            answer = open_page(browser, address)
            assert answer.status_code == 200, address
            assert not re.search(r'\son\w+="|\sstyle="|javascript:', answer.text), address
            assert browser.get(address, headers=PARTIAL_HEADERS).status_code == 200, address
            checked_pages += 1
    assert checked_pages > 25


def fill_address(rule, ids):
    return re.sub(r"<(\w+)>", lambda match: ids[match[1]], rule.rule)


def open_page(browser, address):
    """Open the page. Only that of bulk results leads elsewhere: it has no results of its own."""
    answer = browser.get(address, follow_redirects=True)
    paths = [redirect.request.path for redirect in answer.history]
    assert all(path.endswith("/bulk") for path in paths), (address, paths)
    return answer


def test_empty_admin_lists_open(app, browser_as, cast):
    browser = browser_as("admin")
    for table in ("instances", "tasks"):
        assert "yet" in browser.get(f"/admin/{table}").text
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/admin") and "GET" in rule.methods and "<" not in rule.rule:
            answer = open_page(browser, f"{rule.rule}?search=zzzz&status=nonsense&page=99&per_page=7")
            assert answer.status_code == 200, rule.rule


def test_overview_without_problems_says_so(load_overview, cast):
    session.get(Hypervisor, cast.node.id).seen_at = clock.now()  # the cast was created at the start of the test run
    session.commit()
    assert "All hypervisors are up, and no task failed today." in find_attention_items(load_overview())


def test_attention_items_are_sorted_by_severity(load_overview, cast):
    node = session.get(Hypervisor, cast.node.id)
    node.unmanaged_machines = [{"id": "x", "name": "old-build-server"}]
    node.storages[0].free = node.storages[0].capacity // 50
    missing = cast.instance()
    missing.missing_on_node, missing.last_error = True, "The machine is missing."
    node.status, node.status_detail = "down", "No route to host"
    session.commit()
    items = find_attention_items(load_overview())
    order = ["node-1 is down", f"VM of {missing.name} is missing", "is nearly full", "1 unmanaged VM on node-1"]
    assert sorted(order, key=items.index) == order
    assert "No route to host" in items
    assert "old-build-server" in items
    assert "All hypervisors are up" not in items


def test_overview_reports_stale_node_status(load_overview, cast, monkeypatch):
    later = clock.now() + timedelta(minutes=2)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert "Status of node-1 is out of date" in find_attention_items(load_overview())


@pytest.mark.parametrize(("alive", "text"), [(0, "Tasks wait until a worker runs"), (None, "Redis is not reachable")])
def test_overview_reports_missing_workers(load_overview, monkeypatch, alive, text):
    monkeypatch.setattr(overview, "count_workers", lambda: alive)
    assert text in find_attention_items(load_overview())


def test_overview_reports_location_without_addresses(load_overview, cast):
    for address in session.scalars(subnets.select_free(session.scalar(select(Subnet).where(Subnet.family == 4)))):
        address.reserved = address.ip != "10.9.0.9"
    session.commit()
    items = find_attention_items(load_overview())
    assert "Laboratory is running out of IPv4 addresses" in items
    assert "1 address left" in items


def test_overview_counts_failed_tasks_of_today_only(load_overview, cast, monkeypatch):
    for days in (0, 7):
        moment = clock.now() - timedelta(days=days)
        monkeypatch.setattr("panel.core.db.uuid7", lambda moment=moment: make_id(moment))
        task, _ = instances.deploy(cast.instance(), image_id=cast.image.id, actor="test")
        monkeypatch.undo()
        monkeypatch.setattr(workers, "count_alive", lambda: 2)
        task.status, task.error, task.finished_at = "failed", f"{days} days ago", moment
    session.commit()
    text = load_overview()
    assert "1 task failed today" in find_attention_items(text)
    assert "0 days ago" in text
    assert "7 days ago" not in text


def make_id(moment):
    """Return an id that was generated at this time."""
    return overview.make_first_id(moment) + str(uuid7())[13:]


def test_overview_shows_allocated_capacity(load_overview, cast):
    cast.instance()
    node = session.get(Hypervisor, cast.node.id)
    assert f"1 of {node.cpu_cores * 4:d} cores" in load_overview()
    capacity = next(row for row in overview.list_capacities() if row.group.id == cast.location.id)
    assert (capacity.nodes, capacity.up, capacity.instances, capacity.ram_allocated, capacity.storage_allocated) == (
        1,
        1,
        1,
        512,
        10,
    )


def test_overview_counts_instances_by_state(load_overview, cast, run_tasks):
    created = [cast.instance() for _ in range(3)]
    instances.deploy(created[0], image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    assert overview.count_states()["running"] == 1
    assert overview.count_states()["pending"] == session.query(Instance).count() - 1 == 2
    assert "/admin/instances?state=running" in load_overview()


def test_overview_takes_constant_number_of_queries(load_overview, cast, queries):
    cast.instance()
    load_overview()
    queries.clear()
    load_overview()
    few = len(queries)
    for _ in range(20):
        instances.deploy(cast.instance(), image_id=cast.image.id, actor="test")
    session.commit()
    queries.clear()
    load_overview()
    assert len(queries) == few
