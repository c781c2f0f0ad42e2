"""Refusals for unavailable plans and missing capacity."""

import ast
from pathlib import Path

import pytest

import panel
from panel.core.db import session
from panel.models import Hypervisor
from panel.services import catalog

SERVICE_AND_API_FILES = [
    file for part in ("services", "../api") for file in (Path(panel.__file__).parent / part).rglob("*.py")
]

CAPACITY_REASONS = {
    "docker_limit",
    "hypervisor_not_available",
    "ipv4_not_available",
    "ipv6_not_available",
    "limit_reached",
    "resources_not_sufficient",
    "snapshot_limit",
    "storage_not_sufficient",
}
CAPACITY_WORDS = ("not enough", "not have enough", "cannot have another", "is full", "has no free")


@pytest.mark.parametrize("path", ["/api/v1/instance/{}/change-plan", "/api/instance/{}/change-plan"])
def test_unavailable_or_too_large_plan_is_refused(api_as, cast, path):
    """ENV-15, ENV-16, ENV-17, ERR-08: never 200; a 422 of the service has no mapping header."""
    caller = "admin" if "v1" in path else "owner"
    machine = cast.instance()
    machine.deployed = True
    larger = catalog.create_plan(cast.plan.group, name="L", cpu_cores=2, ram=1024, storage=20, price=8)
    session.commit()

    def change():
        answer = api_as(caller, "POST", path.format(machine.id), json={"plan_id": larger.id})
        assert answer.json["success"] is False
        assert "X-Failure-Status-Mapped" not in answer.headers
        return answer.status_code, answer.json.get("reason"), list(answer.json["errors"])

    session.get(Hypervisor, machine.hypervisor_id).memory_mb = 600
    session.commit()
    assert change() == (422, "resources_not_sufficient", ["plan_id"])
    larger.enabled = False
    session.commit()
    assert change() == (422, None, ["plan_id"])


@pytest.mark.parametrize("caller", ["billing", "admin"])
def test_create_by_billing_or_operator_without_capacity_is_refused(api_as, cast, caller):
    """ERR-08: also for billing systems and operators."""
    session.get(Hypervisor, cast.node.id).memory_mb = 100
    session.commit()
    paths = {"billing": "/api/v1/billing/instances", "admin": "/api/v1/instances"}
    body = {"user_id": cast.owner.id, "location_id": cast.location.id, "plan_id": cast.plan.id}
    answer = api_as(caller, "POST", paths[caller], json=body)
    assert (answer.status_code, answer.json["reason"]) == (422, "resources_not_sufficient")


@pytest.mark.parametrize("path", SERVICE_AND_API_FILES, ids=lambda path: str(path)[-40:])
def test_capacity_refusals_are_422(path):
    """ERR-08: a refusal for lack of capacity is raised as Invalid or Refused, not as Conflict or Problem."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            texts = {constant.value for constant in ast.walk(node.exc) if isinstance(constant, ast.Constant)}
            sentences = [text for text in texts if isinstance(text, str)]
            of_capacity = texts & CAPACITY_REASONS or any(word in text for text in sentences for word in CAPACITY_WORDS)
            assert not of_capacity or node.exc.func.id in ("Invalid", "Refused"), (path, node.lineno)
