"""A web server with full pages, and windows of all sizes and themes."""

import threading

import pytest
from sqlalchemy import select
from waitress import create_server

from panel.app import create_app
from panel.core import clock, context
from panel.core.db import session
from panel.models import AlertEvent, AlertState, InstanceBackup, Task
from panel.ratelimit import windows
from panel.schemas.backup_policies import DEFAULTS
from panel.services import (
    alert_rules,
    backup_destinations,
    backup_policies,
    disks,
    docker_deployments,
    instances,
    ip_sets,
    microvms,
    notification_channels,
    projects,
    resource_packs,
    security_groups,
    sessions,
    snapshots,
    user_scripts,
    volume_plans,
    volumes,
)
from panel.services import settings as app_settings
from panel.services.instance_backups.create import get_or_create_repository
from panel.services.microvms import profiles
from panel.services.webhooks import subscriptions
from tests.browser.windows import collect_console_errors, open_window
from tests.support.isolated_app import isolated_installation
from tests.support.microvms import register_image
from tests.support.ports import find_free_port
from worker.engine import runner

LONG_NAME = "unbroken" * 31 + "names"

VIEWPORTS = {"phone": {"width": 360, "height": 740}, "screen": {"width": 1440, "height": 900}}


class ReadabilitySite:
    """A panel whose customer has resources of all kinds with long names. `paths` are the detail pages by kind."""

    def __init__(self, app, url, queued_calls):
        self.app, self.url, self.queued_calls = app, url, queued_calls
        with app.app_context():
            owner = session.merge(app.cast.owner)
            self.paths = dict(self.create_resources(owner))
            self.cookies = {caller: self.create_cookie(caller) for caller in ("owner", "admin")}

    def create_cookie(self, caller):
        secret = sessions.start(session.merge(getattr(self.app.cast, caller)), ip="127.0.0.1", user_agent="test")
        session.commit()
        serializer = self.app.session_interface.get_signing_serializer(self.app)
        return {"name": "panel", "value": serializer.dumps({"_user_id": secret}), "url": self.url}

    def create_resources(self, owner):
        pack = {"name": "p" * 64, "description": LONG_NAME, "cpu_cores": 8, "ram": 4096, "storage": 100, "price": 40}
        pack = resource_packs.create(user_id=owner.id, **pack)
        instance = self.app.cast.instance(display_name=LONG_NAME, pack_id=pack.id)
        instance.tags, instance.notes, instance.enable_smtp = ["t" * 63], LONG_NAME, False
        instances.deploy(instance, image_id=self.app.cast.image.id, actor=owner.email)
        self.run_tasks()
        disks.add(instance, size=5, actor=owner.email)
        self.run_tasks()
        snapshots.create(instance, snapname="s" * 64, description=LONG_NAME, vmstate=False, actor=owner.email)
        self.run_tasks()
        docker_deployments.install(instance, actor=owner.email, since=clock.now())
        self.run_tasks()
        app, *_ = docker_deployments.deploy_app(instance, app_slug="wordpress", actor=owner.email)
        self.run_tasks()
        app.app_name, app.status, app.error_message = LONG_NAME, "error", LONG_NAME
        app.logs, app.logs_at, app.logs_error = f"{LONG_NAME}\n", app.deployed_at, LONG_NAME
        instances.run_power_action(instance, "poweroff", actor=owner.email)
        failed_task = session.scalars(select(Task).where(Task.kind == "instance_poweroff")).one()
        failed_task.status, failed_task.error = "failed", f"The node refused it: {LONG_NAME}"
        networks = ip_sets.create(owner, name=LONG_NAME, ip_version="ipv4", description=LONG_NAME)
        ip_sets.add_entry(networks, cidr="203.0.113.0/24", description=LONG_NAME, actor=owner.email)
        group = security_groups.create(owner, name=LONG_NAME, description=LONG_NAME)
        for direction in ("ingress", "egress"):
            rule = {"direction": direction, "protocol": "tcp", "ip_version": "ipv4", "description": LONG_NAME}
            rule |= {"port_range_min": 80, "port_range_max": 443, "ip_set_id": networks.id}
            security_groups.add_rule(group, owner, actor=owner.email, **rule, cidr=None, remote_group_id=None)
        security_groups.attach(group, [instance.id], owner, actor=owner.email)
        project = projects.create(owner, name=LONG_NAME[:64], description=LONG_NAME)
        session.flush()
        instance.project_id = project.id
        plan = volume_plans.create(volume_plans.create_group(name="ssd"), name="v" * 64, size=5, price=1)
        place = {"volume_plan_id": plan.id, "hypervisor_group_id": instance.group_id, "project_id": project.id}
        volume = volumes.create(owner, name=LONG_NAME, actor=owner.email, **place)
        self.run_tasks()
        hook = {
            "name": LONG_NAME,
            "url": f"https://1.1.1.1/{LONG_NAME}",
            "secret": "correct horse battery",
            "event_kinds": ["*"],
        }
        hook = subscriptions.create(owner, **hook)
        user_scripts.create(owner, name=LONG_NAME, type="bash", content=f"#!/bin/sh\n# {LONG_NAME}\n")
        app_settings.update({"billing_enabled": True})
        image = register_image()
        profiles.create(hypervisor_id=self.app.cast.node.id)
        place = {"location_id": instance.group_id, "image_id": image.id}
        microvm = microvms.create(owner, name=LONG_NAME, actor=owner.email, **place)
        backup, policy = create_backups(owner, instance, volume)
        rule = create_firing_rule(owner, instance)
        session.commit()
        yield "alert rule", f"/alert-rules/{rule.id}"
        yield "alert rule form", f"/alert-rules/{rule.id}/edit"
        yield "channel", f"/notification-channels/{rule.channels[0].id}"
        yield "restore", f"/backups/{backup.id}/restore"
        yield "backup image", f"/backups/{backup.id}/image"
        yield "policy", f"/backup-policies/{policy.id}"
        yield "policy form", f"/backup-policies/{policy.id}/edit"
        yield "microvm", f"/microvms/{microvm.id}"
        yield "instance", f"/instances/{instance.id}"
        yield "app", f"/instances/{instance.id}/apps/{app.id}/logs"
        yield "pack", f"/resource-packs/{pack.id}"
        yield "volume", f"/volumes/{volume.id}"
        yield "task", f"/tasks/{failed_task.id}"
        yield "group", f"/security-groups/{group.id}"
        yield "set", f"/ip-sets/{networks.id}"
        yield "project", f"/projects/{project.id}"
        yield "webhook", f"/webhooks/{hook.id}"

    def run_tasks(self):
        session.commit()
        while self.queued_calls:
            function, *args = self.queued_calls.pop(0)
            if function == "worker.engine.runner.run":
                for task_id in args:
                    runner.run(task_id, "test-worker")
        session.expire_all()


def create_firing_rule(owner, instance):
    """Create a channel, and a rule whose alert fires."""
    hook = {"type": "webhook", "config": {"url": f"https://1.1.1.1/{LONG_NAME}"}}
    channel = notification_channels.create(owner, name=LONG_NAME, **hook)
    limit = {"resource_type": "instance", "metric": "cpu_pct", "operator": "gt", "threshold": 90}
    rule = alert_rules.create(owner, name=LONG_NAME, channel_ids=[channel.id], **limit)
    session.add(AlertState(rule_id=rule.id, resource_id=instance.id, status="firing", fired_at=clock.now(), value=95))
    event = {"rule_id": rule.id, "resource_id": instance.id, "resource_name": LONG_NAME, "kind": "firing", "value": 95}
    session.add(AlertEvent(**event))
    return rule


def create_backups(owner, instance, volume):
    """Create backups of both in every state, which no storage has. Return a complete one of the instance, and its
    policy."""
    policy = backup_policies.create(owner, **DEFAULTS | {"name": LONG_NAME, "retention_mode": "gfs", "keep_daily": 7})
    policy.failures, policy.last_error = 2, LONG_NAME
    backup_policies.attach(policy, instance)
    job = backup_policies.create_job(instance.group, name=LONG_NAME, keep={"keep_daily": 7}, comment=LONG_NAME)
    job.failures, job.last_error = 1, LONG_NAME
    destination = backup_destinations.create(name="b" * 64, storage_type="local", config={"path": "/srv/backups"})
    shared = {
        "account_id": owner.id,
        "repository": get_or_create_repository(destination, owner.id),
        "destination": destination,
        "instance_id": instance.id,
        "recorded_name": LONG_NAME,
        "recorded_hostname": instance.hostname,
        "name": LONG_NAME,
        "description": LONG_NAME,
        "policy_id": policy.id,
        "statistics": {"bytes_read": 2**40, "bytes_stored": 2**39},
        "size": 2**39,
        "backup_type": "incremental",
    }
    disks = [{"id": disk.id, "name": disk.name, "position": 0, "size": disk.size * 2**30} for disk in instance.disks]
    done = {"status": "complete", "chain_reason": "previous_missing", "consistency": "crash", "disks": disks}
    states = done, done | {"delete_claimed_at": clock.now()}, {"status": "failed", "error": LONG_NAME}, {}
    of_volume = shared | {"instance_id": "", "volume_id": volume.id, "policy_id": None}
    backups = [InstanceBackup(**resource, **values) for resource in (shared, of_volume) for values in states]
    backups[0].protected = True
    session.add_all(backups)
    session.flush()
    return backups[0], policy


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    port, queued_calls = find_free_port(), []
    settings = {
        "public_url": f"http://127.0.0.1:{port}",
        "create": create_app,
        "on_call": lambda *call: queued_calls.append(call),
    }
    with isolated_installation(tmp_path_factory.mktemp("site"), **settings) as app:
        context.current().rate_limits = windows.RateLimits("")  # of this process
        server = create_server(app, host="127.0.0.1", port=port, threads=8)
        threading.Thread(target=server.run, daemon=True).start()  # ends with the last connection after close()
        yield ReadabilitySite(app, settings["public_url"], queued_calls)
        server.close()


@pytest.fixture
def open_page(browser, site, console_errors):
    """Return a function that opens a page as customer or operator, with a viewport size and a theme. Console errors
    fail the test."""
    contexts = []

    def open_new_page(size, theme="light", caller="owner"):
        contexts.append(open_window(browser, viewport=VIEWPORTS[size], color_scheme=theme))
        contexts[-1].add_cookies([site.cookies[caller]])
        return collect_console_errors(contexts[-1].new_page(), console_errors)

    yield open_new_page
    for browser_context in contexts:
        browser_context.close()
    assert console_errors == []
