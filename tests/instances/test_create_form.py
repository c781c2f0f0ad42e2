"""The form for new instances: several at once, project, tags, volumes, security groups and ISOs."""

import ast

import pytest
from lxml import html
from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Instance, Iso, SecurityGroup, SecurityGroupMember, SecurityRule, Task, Volume
from panel.services import address_allocation, projects, security_groups
from tests.support.instances import build_form
from tests.support.volumes import billing_enabled, call_storage_api, plans, volume, volume_body  # noqa: F401  (fixtures)

PATH = "/instances/new"


@pytest.fixture
def group(cast):
    """A security group with a rule for HTTP only."""
    row = security_groups.create(cast.owner, name="web")
    facts = {
        "direction": "ingress",
        "protocol": "tcp",
        "ip_version": "ipv4",
        "port_range_min": 80,
        "port_range_max": 80,
    }
    security_groups.add_rule(row, cast.owner, actor="test", **facts)
    session.commit()
    return row


def list_instances():
    return session.scalars(select(Instance).order_by(Instance.id)).all()


def list_members():
    return session.scalars(select(SecurityGroupMember.instance_id)).all()


def test_quantity_creates_numbered_instances_with_own_passwords(browser_as, cast, run_tasks):
    browser = browser_as("owner")
    data = build_form(cast, quantity="3", display_name="web", hostname="web.example.com", tags="prod, web")
    answer = browser.post(PATH, data=data)
    assert answer.status_code == 303
    rows = list_instances()
    assert [(row.display_name, row.hostname, row.tags) for row in rows] == [
        (f"web-{number}", f"web-{number}.example.com", ["prod", "web"]) for number in (1, 2, 3)
    ]
    page = browser.get(answer.headers["Location"]).text
    passwords = html.fromstring(page).xpath("//td[@data-label='Root password']//span[@class='copy-value']/text()")
    assert len(set(passwords)) == 3
    assert "0 of 3 finished" in page
    run_tasks()
    page = browser.get(answer.headers["Location"]).text
    assert "3 of 3 finished" in page
    assert not any(password in page for password in passwords)
    assert "web-1" not in browser_as("outsider").get(answer.headers["Location"]).text


def test_quantity_beyond_capacity_creates_nothing(browser_as, cast):
    cast.node.memory_mb, cast.node.memory_overcommit = cast.plan.ram * 2, 1
    session.commit()
    sentence = "Only 2 instances of this plan fit here at the moment."
    assert sentence in browser_as("owner").post(PATH, data=build_form(cast, quantity="3", preview="1")).text
    answer = browser_as("owner").post(PATH, data=build_form(cast, quantity="3"))
    assert (answer.status_code, sentence in answer.text) == (422, True)
    assert list_instances() == []
    assert browser_as("owner").post(PATH, data=build_form(cast, quantity="11")).status_code == 422


def test_addresses_that_run_out_create_nothing(browser_as, cast, monkeypatch):
    """What the check before does not count is found by the second instance."""
    allocate = address_allocation.allocate_missing

    def allocate_once(instance, *options):
        if list_instances()[0] is not instance:
            raise Invalid("No address is left.", reason="ipv4_not_available")
        allocate(instance, *options)

    monkeypatch.setattr(address_allocation, "allocate_missing", allocate_once)
    answer = browser_as("owner").post(PATH, data=build_form(cast, quantity="2"))
    assert (answer.status_code, "No address is left." in answer.text) == (422, True)
    assert list_instances() == []


def test_project_and_presets(browser_as, cast):
    project = projects.create(cast.owner, name="Shop")
    session.commit()
    data = build_form(cast, project_id=project.id, presets=["ssh", "ping"])
    for _attempt in range(2):
        assert browser_as("owner").post(PATH, data=data).status_code == 303
    rows = list_instances()
    assert [row.project_id for row in rows] == [project.id] * 2
    assert session.scalars(select(SecurityGroup.name)).all() == ["SSH, Ping"]  # the second instance uses the same
    assert sorted(list_members()) == sorted(row.id for row in rows)
    assert len(session.scalars(select(SecurityRule)).all()) == 4  # two for each
    assert session.scalars(select(Task).where(Task.kind == "firewall_apply")).all() == []


def test_groups_without_ssh_need_confirmation(browser_as, cast, group):
    browser, data = browser_as("owner"), build_form(cast, security_group_ids=group.id)
    warning = "SSH to the new instance will be blocked."
    assert warning in browser.post(PATH, data={**data, "preview": "1"}).text
    answer = browser.post(PATH, data=data)
    assert (answer.status_code, warning in answer.text, list_instances()) == (422, True, [])
    assert warning not in browser.post(PATH, data={**data, "preview": "1", "presets": "ssh"}).text
    assert browser.post(PATH, data={**data, "presets": "ssh"}).status_code == 303
    assert len(list_members()) == 2
    assert browser.post(PATH, data={**data, "confirmed": "true"}).status_code == 303
    assert len(list_members()) == 3


def test_new_and_existing_volumes_are_attached_before_the_first_start(browser_as, cast, plans, volume, run_tasks):
    data = build_form(cast, display_name="db", volume_ids=volume.id, volume_plan_id=plans["small"].id)
    assert browser_as("owner").post(PATH, data=data).status_code == 303
    run_tasks()
    instance = list_instances()[0]
    assert instance.state == "running"
    rows = session.scalars(select(Volume).order_by(Volume.id)).all()
    assert [(row.name, row.status, row.instance_id, row.ever_attached) for row in rows] == [
        ("data", "attached", instance.id, True),
        ("db-data", "attached", instance.id, True),
    ]
    page = browser_as("owner").get(PATH).text
    assert "Attached to db." in page
    again = browser_as("owner").post(PATH, data=data)
    assert (again.status_code, len(list_instances())) == (422, 1)


def test_existing_volume_needs_one_instance(browser_as, cast, volume):
    answer = browser_as("owner").post(PATH, data=build_form(cast, volume_ids=volume.id, quantity="2"))
    assert (answer.status_code, list_instances()) == (422, [])
    assert "A volume can be attached to one instance only." in answer.text


def test_iso_boots_new_instance(browser_as, cast, run_tasks):
    url = "https://example.com/{}.iso"
    own = Iso(account_id=cast.owner.id, name="Own", filename="own.iso", url=url.format("own"))
    foreign = Iso(account_id=cast.outsider.id, public=False, name="Foreign", filename="f.iso", url=url.format("f"))
    old = Iso(account_id=cast.owner.id, name="Old", filename="old.iso", url="http://example.com/old.iso")
    session.add_all([own, foreign, old])
    session.commit()
    browser = browser_as("owner")
    page = browser.get(PATH).text
    assert f'value="iso:{own.id}"' in page
    assert foreign.id not in page
    assert "This ISO has no https address" in page
    for iso in (foreign, old):
        answer = browser.post(PATH, data=build_form(cast, image_id=f"iso:{iso.id}"))
        assert (answer.status_code, list_instances()) == (422, [])
    assert browser.post(PATH, data=build_form(cast, image_id=f"iso:{own.id}")).status_code == 303
    instance = list_instances()[0]
    assert (instance.iso_id, instance.display_name) == (own.id, "own-512mb-lab")


@pytest.mark.parametrize("field", ["project_id", "security_group_ids", "volume_ids"])
def test_foreign_ids_are_refused(browser_as, cast, field):
    foreign = {
        "project_id": projects.create(cast.outsider, name="x"),
        "security_group_ids": security_groups.create(cast.outsider, name="x"),
        "volume_ids": cast.instance("outsider"),
    }[field]
    session.commit()
    before = len(list_instances())
    answer = browser_as("owner").post(PATH, data=build_form(cast, **{field: foreign.id}))
    assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True)
    assert len(list_instances()) == before


def test_price_is_of_all_instances_and_volumes(browser_as, cast, plans):
    data = build_form(cast, preview="1", quantity="3", volume_plan_id=plans["small"].id)
    summary = html.fromstring(browser_as("owner").post(PATH, data=data).text).xpath("//p[contains(@class, 'price')]")
    text = " ".join(summary[0].text_content().split())
    total = 3 * (float(cast.plan.price) + 2)
    assert text.startswith(f"€{total:.2f} per month €{total / 730:.4f}".rstrip("0"))


def test_python_example_is_a_program(browser_as, cast, group):
    data = build_form(cast, preview="1", quantity="2", display_name="a \"{b}'", security_group_ids=group.id)
    page = html.fromstring(browser_as("owner").post(PATH, data={**data, "cloudcfg": "a: 1\nb: 2"}).text)
    curl, program = (code.text for code in page.xpath("//details[@id='as-code']//code"))
    tree = ast.parse(program)
    assert any(isinstance(node, ast.For) for node in tree.body)
    assert 'f"a \\"{{b}}\'-{number}"' in program
    assert any(isinstance(node, ast.List) and ast.unparse(node) == "[instance_id]" for node in ast.walk(tree))
    assert curl.count("curl -X POST") == 3
