"""Customers can read every page: on a phone and on a wide screen, in both themes, with names as long as may be."""

import threading
from pathlib import Path

import pytest
from playwright.sync_api import expect
from sqlalchemy import select
from waitress import create_server

from panel import limits
from panel.app import create_app
from panel.db import session
from panel.models import Task
from panel.services import disks, instances, ip_sets, projects, security_groups, sign_ins, snapshots, user_scripts
from panel.services.webhooks import subscriptions
from tests.apart import installation
from tests.browser.conftest import window
from tests.processes.conftest import free_port
from worker import task

pytestmark = pytest.mark.browser

READABLE = Path(__file__).with_name("readable.js").read_text()
LONG = "unbroken" * 31 + "names"
SIZES = {"phone": {"width": 360, "height": 740}, "screen": {"width": 1440, "height": 900}}
PAGES = [
    "/",
    "/instances",
    "/instances/new",
    "/instances?search=nothing",
    "/tasks",
    "/activity",
    "/activity/log",
    "/search?q=a",
    "/volumes",
    "/volumes/new",
    "/images",
    "/isos",
    "/isos/new",
    "/projects",
    "/projects/new",
    "/security-groups",
    "/security-groups/new",
    "/ip-sets",
    "/ip-sets/new",
    "/ssh-keys",
    "/ssh-keys/new",
    "/ssh-keys/generate",
    "/user-scripts",
    "/user-scripts/new",
    "/webhooks",
    "/webhooks/new",
    "/webhooks/verify",
    "/api-tokens",
    "/api-tokens/new",
    "/api-tokens/test",
    "/team",
    "/team/invite",
    "/team/roles/new",
    "/billing",
    "/billing/entries",
    "/profile",
    "/profile/security",
    "/nothing",
]
TABS = (
    "",
    "/network",
    "/storage",
    "/media",
    "/snapshots",
    "/tasks",
    "/activity",
    "/settings",
    "/change-plan",
    "/reinstall",
)


class Site:
    """A panel whose customer has much, and everything with long names. `thing` are the addresses of single things."""

    def __init__(self, app, url, bells):
        self.app, self.url, self.bells = app, url, bells
        with app.app_context():
            owner = session.merge(app.cast.owner)
            self.thing = dict(self.furnish(owner))
            secret = sign_ins.start(owner, ip="127.0.0.1", user_agent="test")
            session.commit()
        serializer = app.session_interface.get_signing_serializer(app)
        self.cookie = {"name": "panel", "value": serializer.dumps({"_user_id": secret}), "url": url}

    def furnish(self, owner):
        instance = self.app.cast.instance(display_name=LONG)
        instance.tags, instance.notes = ["t" * 63], LONG
        instances.deploy(instance, image_id=self.app.cast.image.id, actor=owner.email)
        self.work()
        disks.add(instance, size=5, actor=owner.email)
        self.work()
        snapshots.create(instance, snapname="s" * 64, description=LONG, vmstate=False, actor=owner.email)
        self.work()
        instances.act(instance, "poweroff", actor=owner.email)
        ended = session.scalars(select(Task).where(Task.kind == "instance_poweroff")).one()
        ended.status, ended.error = "failed", f"The node refused it: {LONG}"
        networks = ip_sets.create(owner, name=LONG, ip_version="ipv4", description=LONG)
        ip_sets.add(networks, cidr="203.0.113.0/24", description=LONG, actor=owner.email)
        group = security_groups.create(owner, name=LONG, description=LONG)
        for direction in ("ingress", "egress"):
            rule = {"direction": direction, "protocol": "tcp", "ip_version": "ipv4", "description": LONG}
            rule |= {"port_range_min": 80, "port_range_max": 443, "ip_set_id": networks.id}
            security_groups.add_rule(group, owner, actor=owner.email, **rule, cidr=None, remote_group_id=None)
        security_groups.attach(group, [instance.id], owner, actor=owner.email)
        project = projects.create(owner, name=LONG[:64], description=LONG)
        session.flush()
        instance.project_id = project.id
        hook = {"name": LONG, "url": f"https://1.1.1.1/{LONG}", "secret": "correct horse battery", "event_kinds": ["*"]}
        hook = subscriptions.create(owner, **hook)
        user_scripts.create(owner, name=LONG, type="bash", content=f"#!/bin/sh\n# {LONG}\n")
        session.commit()
        yield "instance", f"/instances/{instance.id}"
        yield "task", f"/tasks/{ended.id}"
        yield "group", f"/security-groups/{group.id}"
        yield "set", f"/ip-sets/{networks.id}"
        yield "project", f"/projects/{project.id}"
        yield "webhook", f"/webhooks/{hook.id}"

    def work(self):
        session.commit()
        while self.bells:
            function, *args = self.bells.pop(0)
            if function == "worker.task.run":
                task.run(*args, "test-worker")
        session.expire_all()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    port, bells = free_port(), []
    facts = {"public_url": f"http://127.0.0.1:{port}", "make": create_app, "ring": lambda *bell: bells.append(bell)}
    with installation(tmp_path_factory.mktemp("site"), **facts) as app:
        limits.connect("")
        server = create_server(app, host="127.0.0.1", port=port, threads=8)
        threading.Thread(target=server.run, daemon=True).start()  # ends with the last connection after close()
        yield Site(app, facts["public_url"], bells)
        server.close()
        limits.connect("")


@pytest.fixture
def opened(browser, site):
    """Opens pages of the site as its customer, in a window of a size and a theme."""
    windows = []

    def opened(size, theme="light"):
        windows.append(window(browser, viewport=SIZES[size], color_scheme=theme))
        windows[-1].add_cookies([site.cookie])
        return windows[-1].new_page()

    yield opened
    for each in windows:
        each.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_can_be_read(site, opened, size, theme):
    page, wrong = opened(size, theme), {}
    for path in [*PAGES, *site.thing.values(), *(site.thing["instance"] + tab for tab in TABS)]:
        page.goto(site.url + path)
        if found := page.evaluate(READABLE):
            wrong[path] = found
    assert wrong == {}


def test_rules_keep_their_direction_on_a_phone(site, opened):
    page = opened("phone")
    page.goto(site.url + site.thing["group"])
    for direction in ("Coming in", "Going out"):
        expect(page.locator("caption", has_text=direction)).to_be_visible()


@pytest.mark.parametrize("tab", ["media", "settings"])
def test_the_open_tab_is_in_sight_on_a_phone(site, opened, tab):
    page = opened("phone")
    page.goto(f"{site.url}{site.thing['instance']}/{tab}")
    expect(page.locator(".tab.active")).to_be_in_viewport(ratio=0.9)
