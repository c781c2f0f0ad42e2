"""Unknown ids in bodies are refused with an error at their field."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, PlanGroup
from panel.services import resource_packs, settings, volume_plans
from tests.support.cast import UNKNOWN_ID

RULE = {"direction": "ingress", "protocol": "icmp", "ip_version": "ipv4"}
PACK = {"name": "p", "cpu_cores": 1, "ram": 512, "storage": 1}
PLAN = {"name": "p", "cpu_cores": 1, "ram": 512, "storage": 1}
VOLUME = {"name": "v", "volume_plan_id": "{volume_plan}", "hypervisor_group_id": "{group}"}
INSTANCE = {"location_id": "{group}", "plan_id": "{plan}"}
ORDER = {**INSTANCE, "user_id": "{owner}"}
SUBNET = {"name": "s", "cidr": "198.51.100.0/29", "gateway": "198.51.100.1"}
REQUESTS = [
    ("owner", "POST", "/api/cloud-service/instances", {**INSTANCE, "location_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/cloud-service/instances", {**INSTANCE, "plan_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/images", {"name": "i", "instance_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/instance/{instance}/deploy", {"image_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/instance/{instance}/deploy", {"image_id": "{image}", "ssh_keys": [UNKNOWN_ID]}),
    ("owner", "POST", "/api/instance/{instance}/deploy", {"image_id": "{image}", "user_scripts": [UNKNOWN_ID]}),
    ("owner", "POST", "/api/instance/{instance}/self-deploy", {"iso_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/project/assign-resource", {"resource_type": "instance", "resource_id": "{instance}"}),
    ("owner", "POST", "/api/storage/volumes", {**VOLUME, "project_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/storage/volumes", {**VOLUME, "hypervisor_group_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/storage/volumes", {**VOLUME, "volume_plan_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/security-group/{security_group}/rules", {**RULE, "remote_group_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/security-group/{security_group}/rules", {**RULE, "ip_set_id": UNKNOWN_ID}),
    ("owner", "POST", "/api/security-group/{security_group}/attach-instances", {"instance_ids": [UNKNOWN_ID]}),
    ("owner", "POST", "/api/team/subusers/invite", {"email": "new@example.com", "role_id": UNKNOWN_ID}),
    ("billing", "POST", "/api/v1/billing/instances", {**ORDER, "user_id": UNKNOWN_ID}),
    ("billing", "POST", "/api/v1/billing/instances", {**ORDER, "image_id": UNKNOWN_ID}),
    ("billing", "POST", "/api/v1/billing/instances", {**ORDER, "plan_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/cloud-service/credits", {"amount": 1, "user_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/cloud-service/plan-groups", {"name": "g", "hypervisor_groups": [UNKNOWN_ID]}),
    ("admin", "PATCH", "/api/v1/cloud-service/plan-group/{plan_group}", {"hypervisor_groups": [UNKNOWN_ID]}),
    ("admin", "POST", "/api/v1/hypervisor/groups", {"name": "g", "plan_groups": [UNKNOWN_ID]}),
    ("admin", "POST", "/api/v1/hypervisor/groups", {"name": "g", "default_backup_policy_id": UNKNOWN_ID}),
    ("admin", "PATCH", "/api/v1/hypervisor/group/{group}", {"plan_groups": [UNKNOWN_ID]}),
    ("admin", "PATCH", "/api/v1/hypervisor/group/{group}", {"default_backup_policy_id": UNKNOWN_ID}),
    ("admin", "PUT", "/api/v1/hypervisor/group/{group}/access", {"public": False, "account_ids": [UNKNOWN_ID]}),
    ("admin", "POST", "/api/v1/hypervisors", {"name": "h", "driver": "simulated", "hypervisor_group_id": UNKNOWN_ID}),
    ("admin", "PATCH", "/api/v1/hypervisor/{hypervisor}", {"hypervisor_group_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/hypervisor/storages", {"name": "s", "path": "/srv/s", "hypervisor_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/instance/plans", {**PLAN, "plan_group_id": UNKNOWN_ID}),
    ("admin", "PATCH", "/api/v1/instance/plan/{plan}", {"plan_group_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/instance/{instance}/assign-user", {"user_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/instances", {**ORDER, "user_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/instances", {**ORDER, "hypervisor_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/instances", {**ORDER, "iso_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/ip-sets", {"name": "s", "ip_version": "ipv4", "user_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/migrations", {"instance_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/security-groups", {"name": "s", "user_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/self-provisioning/packs", {**PACK, "user_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/self-provisioning/packs", {**PACK, "user_id": "{owner}", "location_id": UNKNOWN_ID}),
    ("admin", "PATCH", "/api/v1/self-provisioning/pack/{pack}", {"location_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/ssh-key/generate", {"name": "k", "algorithm": "ed25519", "user_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/subnets", {**SUBNET, "hypervisor_group_id": UNKNOWN_ID}),
    ("admin", "POST", "/api/v1/volume/plans", {"name": "s", "size": 1, "volume_plan_group_id": UNKNOWN_ID}),
]


@pytest.fixture
def known_ids(api_as, cast):
    """Return the ids for the placeholders in bodies and paths."""
    settings.update({"billing_enabled": True})
    group = volume_plans.create_group(name="ssd")
    volume_plan = volume_plans.create(group, name="1", size=1, price=1)
    pack = resource_packs.create(user_id=cast.owner.id, name="p", cpu_cores=1, ram=512, storage=1)
    session.commit()
    group_body = api_as("owner", "POST", "/api/security-groups", json={"name": "web"}).json
    return {
        "instance": cast.instance().id,
        "image": cast.image.id,
        "owner": cast.owner.id,
        "group": cast.location.id,
        "plan": cast.plan.id,
        "plan_group": session.query(PlanGroup).first().id,
        "hypervisor": session.query(Hypervisor).first().id,
        "volume_plan": volume_plan.id,
        "pack": pack.id,
        "security_group": (group_body.get("security_group") or group_body)["id"],
    }


def test_unknown_id_in_body_is_a_field_error(api_as, known_ids, unlimited_rates):
    failures = []
    for caller, method, path, body in REQUESTS:
        if path.endswith("assign-resource"):
            body = {**body, "project_id": UNKNOWN_ID}
        field = next(name for name, value in body.items() if value in (UNKNOWN_ID, [UNKNOWN_ID]))
        request_body = {
            name: value.format(**known_ids) if isinstance(value, str) else value for name, value in body.items()
        }
        answer = api_as(caller, method, path.format(**known_ids), json=request_body)
        if answer.status_code != 422 or list(answer.json["errors"]) != [field]:
            failures.append((method, path, field, answer.status_code, answer.json))
        session.rollback()
    assert failures == []
