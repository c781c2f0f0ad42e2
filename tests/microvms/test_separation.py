"""Micro VMs are no instances: they are in none of their lists, limits, metrics, webhooks and counts."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Event, Hypervisor, WebhookDelivery
from panel.services.webhooks import fanout


def test_micro_vm_is_in_nothing_of_instances(microvm, api_as, browser_as, call_api, run_tasks, cast):
    body = {"name": "all", "url": "https://8.8.8.8/hook", "secret": "s" * 32, "event_kinds": ["*"]}
    answer = api_as("owner", "POST", "/api/webhook-subscriptions", json=body)
    assert answer.status_code < 300, answer.json
    for action in ("pause", "resume", "stop", "start"):
        call_api("POST", f"vm/{microvm.id}/{action}")
        run_tasks()
    other = call_api("POST", "vms", location_id=cast.location.id, image_id=microvm.image_id, name="second").json["vm"]
    call_api("DELETE", f"vm/{other['id']}")
    run_tasks()

    assert api_as("owner", "GET", "/api/instances").json["total"] == 0
    assert api_as("admin", "GET", "/api/v1/instances").json["data"] == []
    assert api_as("owner", "GET", f"/api/instance/{microvm.id}").status_code == 404
    assert "No instance" in browser_as("owner").get("/instances").text

    dashboard = api_as("owner", "GET", "/api/dashboard").json["data"]
    assert dashboard["instances"]["total"] == 0
    counts = api_as("owner", "GET", "/api/dashboard/summary").json["data"]
    assert (counts["instance"], counts["microvm"]) == (0, 1)

    for caller, path in (("owner", "/api"), ("admin", "/api/v1")):
        assert api_as(caller, "GET", f"{path}/instance/{microvm.id}/metrics").status_code == 404

    fanout.fan_out()
    assert session.scalars(select(Event.kind).where(Event.kind.like("instance%"))).all() == []
    assert session.scalars(select(WebhookDelivery)).all() == []

    assert session.get(Hypervisor, cast.node.id, populate_existing=True).allocation.instances == 0
    limits = api_as("owner", "GET", "/api/account/limits").json["data"]
    assert {name: limit["used"] for name, limit in limits.items() if limit["used"]} == {}
