"""Authentication and authorization of every operation of both API documents, with every kind of token.

IDT-02, IDT-05, IDT-11 to IDT-25, IDT-44, IDT-45, ENV-03 to ENV-08, BIL-13, OP-01, OP-17.
"""

import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from panel.auth import permissions
from panel.core import clock
from panel.core.db import session
from panel.models import (
    BackupDestination,
    DockerDeployment,
    Image,
    Instance,
    InstanceBackup,
    Iso,
    LoginSession,
    Member,
    Microvm,
    MicrovmSnapshot,
    Passkey,
    Task,
    Volume,
    VolumeSnapshot,
)
from panel.services import backup_destinations, resource_packs, sessions, settings, tokens, volume_plans
from panel.services.instance_backups.create import get_or_create_repository
from panel.services.microvms import profiles
from panel.workflows import reachability
from tests.support.cast import PASSWORD, UNKNOWN_ID
from tests.support.certificates import issue_certificate as certificate
from tests.support.microvms import register_image
from tests.support.operations import SURFACES, all_operations, fill_path, find_operations, find_token  # noqa: F401  (fixtures)

pytestmark = pytest.mark.usefixtures("unlimited_rates")

REVOKING_OPERATIONS = {"user.token.stop"}
"""Operations that revoke the impersonation token which calls them."""
OWN_ACCOUNT_OPERATIONS = {f"user.token.{op}" for op in ("create", "update", "delete")} | {
    f"user.profile.{op}"
    for op in (
        "password",
        "passkey_add",
        "passkey_delete",
        "passkey_options",
        "recovery_codes",
        "session_delete",
        "two_factor_confirm",
        "two_factor_disable",
        "two_factor_enable",
    )
}
OWN_ACCOUNT_OPERATIONS |= {
    "user.announcement.dismiss",
    "user.notification.read",
    "user.notification.update_preferences",
}
"""Operations on credentials and on the person's inbox, which an impersonation may not call."""


@pytest.fixture(autouse=True)
def billing_enabled(rolled_back_app):
    """Enable billing: without it, operations of billed resources are closed to everybody."""
    settings.update({"billing_enabled": True})


@pytest.fixture
def platform_operations(all_operations):
    """Return the operations below /api/v1, each with the kind of token that it requires."""
    return [
        (method, path, "billing" if operation["x-permission"] == permissions.BILLING else "admin")
        for method, path, operation in all_operations["ADMIN"]
    ]


def is_refused(answer):
    """Return whether authentication or authorization failed."""
    return answer.status_code in (401, 403)


def test_anonymous_requests_are_refused(api_as, all_operations):
    for method, path, _ in all_operations["USER"]:
        answer = api_as("nobody", method, fill_path(path))
        assert answer.status_code == 401, path
        assert answer.json["success"] is False
    for method, path, _ in all_operations["ADMIN"]:
        answer = api_as("nobody", method, fill_path(path))
        assert (answer.status_code, answer.json) == (403, {"success": False, "message": "Unauthorized!"}), path
        assert answer.headers["X-Api-Envelope"] == "v1"


def test_unknown_token_is_refused_by_every_operation(api_as, all_operations):
    unknown_token = {"Authorization": "Bearer " + "x" * 43}
    for method, path, _ in all_operations["USER"]:
        assert api_as("nobody", method, fill_path(path), headers=unknown_token).status_code == 401, path
    for method, path, _ in all_operations["ADMIN"]:
        answer = api_as("nobody", method, fill_path(path), headers=unknown_token)
        assert (answer.status_code, answer.json) == (401, {"success": False, "message": "Unauthorized!"}), path


@pytest.mark.parametrize("place", ["?token={}", "?access_token={}", "X-Api-Token", "X-Auth-Token", "Cookie"])
def test_token_outside_authorization_header_is_ignored(api_as, cast, place):
    """IDT-06"""
    value = cast.tokens["owner"]
    query, headers = (place.format(value), {}) if "{}" in place else ("", {place: f"token={value}"})
    assert api_as("nobody", "GET", f"/api/instances{query}", headers=headers).status_code == 401


@pytest.mark.parametrize("case", ["revoked", "expired", "elsewhere"])
def test_invalid_token_is_refused_by_every_operation(api_as, cast, all_operations, case):
    """IDT-11, IDT-12, IDT-14, IDT-53, ENV-06: on every operation."""
    change = {
        "revoked": {"enabled": False},
        "expired": {"expires_at": clock.now() - timedelta(seconds=1)},
        "elsewhere": {"allowed_ips": ["203.0.113.9", "2001:db8::/32"]},
    }[case]
    for caller in ("owner", "admin", "billing"):
        for field, value in change.items():
            setattr(find_token(cast, caller), field, value)
        session.commit()
    expected = 403 if case == "elsewhere" else 401
    for method, path, operation in all_operations["USER"] + all_operations["ADMIN"]:
        caller = {permissions.BILLING: "billing"}.get(
            operation["x-permission"], "admin" if path.startswith("/api/v1/") else "owner"
        )
        answer = api_as(caller, method, fill_path(path))
        assert answer.status_code == expected, path
        assert "reason" not in answer.json
        if case == "elsewhere":
            assert "address" in answer.json["message"]


def test_forged_forwarded_address_does_not_pass_allowed_ips(api_as, cast):
    """IDT-13"""
    find_token(cast, "admin").allowed_ips = ["203.0.113.9"]
    session.commit()
    for forged in ("203.0.113.9", "203.0.113.9, 127.0.0.1", "127.0.0.1, 203.0.113.9"):
        assert api_as("admin", "GET", "/api/v1/auth", headers={"X-Forwarded-For": forged}).status_code == 403


def test_allowed_ips_accept_addresses_and_networks(api_as, cast):
    """IDT-14, IDT-15: single addresses and networks of both kinds."""
    for allowed in (["127.0.0.1"], ["127.0.0.0/8"], ["203.0.113.9", "127.0.0.1"], []):
        find_token(cast, "owner").allowed_ips = allowed
        session.commit()
        assert api_as("owner", "GET", "/api/connect").status_code == 200, allowed


def test_operation_requires_its_own_scope(api_as, cast, all_operations):
    """IDT-17 to IDT-25: a token without the required scope is refused; a token with only that scope is accepted."""
    needed = {operation["x-scope"] for *_, operation in all_operations["USER"] if "x-scope" in operation}
    assert needed <= set(permissions.USER_SCOPES)
    for scope in sorted(needed):
        others = [other for other in permissions.USER_SCOPES if other != scope]
        cast.tokens["others"] = tokens.issue("user", name="n", account=cast.owner, scopes=others)[1]
        cast.tokens["alone"] = tokens.issue("user", name="n", account=cast.owner, scopes=[scope])[1]
        session.commit()
        for method, path, operation in all_operations["USER"]:
            if operation.get("x-scope") != scope:
                continue
            answer = api_as("others", method, fill_path(path))
            assert answer.status_code == 403, path
            assert answer.json["success"] is False
            assert answer.json["message"] == f"The token's scope does not permit this action: it needs {scope}."
            assert not is_refused(api_as("alone", method, fill_path(path))), path


def test_only_connect_and_version_require_no_scope(api_as, cast, all_operations):
    """IDT-23 to IDT-25"""
    cast.tokens["unrelated"] = tokens.issue("user", name="n", account=cast.owner, scopes=["dns_zones:read"])[1]
    session.commit()
    opened = {
        path
        for method, path, operation in all_operations["USER"]
        if not is_refused(api_as("unrelated", method, fill_path(path)))
    }
    assert opened == {"/api/connect", "/api/version"}


def test_operation_scope_follows_from_its_path(all_operations):
    """IDT-22, IDT-26"""
    for method, path, operation in all_operations["USER"]:
        assert operation.get("x-scope") == permissions.find_required_scope(path, method), path
    assert len(permissions.PERMISSION_FAMILIES) == len(set(permissions.PERMISSION_FAMILIES)) >= 26
    assert permissions.find_required_scope("/api/microvm/vm/{id}/rollback", "POST") == "microvm:write"
    assert permissions.find_required_scope("/api/vpc/{id}/nat-gateway", "GET") == "nat_gateways:read"
    with pytest.raises(LookupError):
        permissions.find_required_scope("/api/nosuch", "GET")


def test_viewer_role_permits_only_read_operations(api_as, all_operations):
    """The viewer's role permits the read operations of all families and nothing else."""
    allowed_count = 0
    for method, path, operation in all_operations["USER"]:
        answer = api_as("viewer", method, fill_path(path))
        needed = operation["x-permission"]
        if needed in permissions.ROLE_INDEPENDENT or (
            needed.partition(".")[0] in permissions.PERMISSION_FAMILIES and needed.endswith(".view")
        ):
            assert not is_refused(answer), path
            allowed_count += 1
        else:
            assert answer.status_code == 403, path
            assert answer.json["message"] == f"Your role in the team does not permit this action: it needs {needed}."
    assert allowed_count > 10


def test_member_requires_permission_of_each_operation(api_as, cast, all_operations):
    role = session.scalar(select(Member).where(Member.account_id == cast.member.id)).role
    needed = {operation["x-permission"] for *_, operation in all_operations["USER"]} - set(permissions.ROLE_INDEPENDENT)
    for permission in sorted(needed):
        role.permissions = [other for other in permissions.MEMBER_PERMISSIONS if other != permission]
        session.commit()
        for method, path, operation in all_operations["USER"]:
            if operation["x-permission"] == permission:
                answer = api_as("member", method, fill_path(path))
                assert answer.status_code == 403, path
                assert permission in answer.json["message"]
        role.permissions = [permission]
        session.commit()
        for method, path, operation in all_operations["USER"]:
            if operation["x-permission"] == permission:
                assert not is_refused(api_as("member", method, fill_path(path))), path


def test_surfaces_refuse_tokens_of_other_kinds(api_as, all_operations, platform_operations):
    """ENV-07, BIL-13, OP-17, IDT-65: the message for a valid token of another kind has no exclamation mark."""
    for method, path, kind in platform_operations:
        for caller in {"owner", "member", "admin", "billing"} - {kind}:
            answer = api_as(caller, method, fill_path(path))
            assert (answer.status_code, answer.json) == (403, {"success": False, "message": "Unauthorized"}), (
                caller,
                path,
            )
    for method, path, _ in all_operations["USER"]:
        for caller in ("admin", "billing"):
            assert api_as(caller, method, fill_path(path)).status_code == 401, (caller, path)


def test_platform_tokens_are_accepted_by_their_operations(api_as, platform_operations):
    for method, path, kind in platform_operations:
        assert not is_refused(api_as(kind, method, fill_path(path))), path


def test_impersonation_token_has_permissions_of_its_account(api_as, cast, all_operations):
    """IDT-55, OP-19: except for the operations on credentials and on the inbox."""
    value = tokens.issue(
        "impersonation",
        name="support",
        account=cast.owner,
        scopes=permissions.USER_SCOPES,
        issued_by="admin@example.com",
    )[1]
    cast.tokens["support"] = value
    session.commit()
    for method, path, operation in all_operations["USER"]:
        if operation["operationId"] in REVOKING_OPERATIONS:
            continue
        answer = api_as("support", method, fill_path(path))
        if operation["operationId"] in OWN_ACCOUNT_OPERATIONS:
            assert answer.status_code == 403, path
        else:
            assert not is_refused(answer), path
    for method, path, _ in all_operations["ADMIN"]:
        assert api_as("support", method, fill_path(path)).json == {"success": False, "message": "Unauthorized"}, path


SESSION_OPERATIONS = {
    f"user.instance.{op}" for op in ("novnc", "webssh", "docker_logs", "backup.files", "download_backup_file")
}
"""GET operations that open a console or make a worker read from a guest or a backup."""


def test_suspended_account_has_read_access_only(api_as, cast, all_operations):
    """Opening a console is not a read operation."""
    cast.owner.suspended_at = clock.now()
    session.commit()
    for caller in ("owner", "member"):
        for method, path, operation in all_operations["USER"]:
            answer = api_as(caller, method, fill_path(path))
            is_read = method == "GET" and operation["operationId"] not in SESSION_OPERATIONS
            if is_read or operation["x-permission"] in permissions.ROLE_INDEPENDENT:
                assert not is_refused(answer), path
            else:
                assert (answer.status_code, answer.json["reason"]) == (403, "account_suspended"), path


CATALOG_FIELDS = {"location_id", "plan_id", "plan_group_id", "volume_plan_id", "hypervisor_group_id"}
"""Ids of the platform's catalog, which every caller may use."""
TEAM_FIELDS = {"key_id", "script_id", "role_id", "member_id", "subscription_id", "delivery_id"}
TEAM_FIELDS |= {"group_id", "rule_id", "set_id", "entry_id", "image_id", "iso_id", "certificate_id"}
"""Ids of resources that belong to the whole team, whatever resources a member was granted."""


RULE = {"direction": "ingress", "protocol": "all", "ip_version": "ipv4"}
ENTRY = {"cidr": "10.0.0.0/8"}


def create_image_and_iso(account):
    """Create an image and an ISO that belong to the account."""
    image = Image(
        name=f"of-{account.email}", label="own", distro="Debian", version="12", filename="tiny.qcow2", size=64
    )
    image.purpose, image.account_id, image.sha256 = "user", account.id, "ab" * 32
    iso = Iso(name="own", filename="own.iso", url="https://example.com/own.iso", account_id=account.id)
    session.add_all((image, iso))
    session.commit()
    return image, iso


def create_deployed_app(instance):
    values = {"app_slug": "nginx", "app_name": "nginx", "project_name": "nginx-1a2b3c4d", "environment": "{}"}
    row = DockerDeployment(instance_id=instance.id, **values)
    session.add(row)
    session.commit()
    return row


READ = {"read_mode": "full", "full_read_reason": "first_backup"}


def create_backup(instance):
    """Create a complete backup of the instance's disks, without a point."""
    destination = session.scalar(select(BackupDestination)) or backup_destinations.create(
        name="b", storage_type="local", config={"path": "/srv/backups"}
    )
    backup = InstanceBackup(
        account_id=instance.account_id,
        repository=get_or_create_repository(destination, instance.account_id),
        destination=destination,
        instance_id=instance.id,
        recorded_name=instance.display_name,
        recorded_hostname=instance.hostname,
        name="nightly",
        backup_type="full",
        status="complete",
        disks=[{"id": disk.id, "name": disk.name, "position": 0, "size": 1} | READ for disk in instance.disks],
    )
    session.add(backup)
    session.commit()
    return backup


ACCESS_MODULES = [
    f"tests.{path.parent.name}.access_ids" for path in sorted(Path(__file__).parent.glob("*/access_ids.py"))
]
"""The `access_ids` modules of resources: `create_ids` returns ids of resources that belong to the whole team."""


@pytest.fixture
def resource_ids(api_as, cast):
    return {
        name: value for module in ACCESS_MODULES for name, value in import_module(module).create_ids(api_as).items()
    }


@pytest.fixture
def ids(api_as, cast, resource_ids):
    """Return ids of the owner's resources by the name of the path's placeholder."""
    instance = cast.instance("owner")
    create = lambda path, **body: api_as("owner", "POST", f"/api/{path}", json=body).json  # noqa: E731
    role = create("team/roles", name="r", permissions=[])["role"]["id"]
    image, iso = create_image_and_iso(cast.owner)
    passkey = Passkey(account_id=cast.owner.id, name="k", credential_id="c", public_key="p", sign_count=0)
    session.add(passkey)
    sessions.start(cast.owner, ip="127.0.0.1", user_agent="test")
    session.commit()
    hook = {"name": "h", "url": "https://1.1.1.1/", "secret": "s" * 16, "event_kinds": ["*"]}
    subscription = create("webhook-subscriptions", **hook)["webhook_subscription"]["id"]
    plan = volume_plans.create(volume_plans.create_group(name="ssd"), name="v", size=1)
    session.commit()
    place = {"volume_plan_id": plan.id, "hypervisor_group_id": cast.location.id}
    volume = create("storage/volumes", name="v", **place)["volume"]["id"]
    session.get(Volume, volume).status = "available"
    session.commit()
    create(f"storage/volume/{volume}/snapshot", name="s")
    group = create("security-groups", name="g")["security_group"]["id"]
    ip_set = create("ip-sets", name="s", ip_version="ipv4")["ip_set"]["id"]
    return resource_ids | {
        "snapshot_id": session.scalar(select(VolumeSnapshot.id)),
        "volume_id": volume,
        "address_id": instance.addresses[0].id,
        "certificate_id": create("certificates", **certificate().body())["certificate"]["id"],
        "group_id": group,
        "rule_id": create(f"security-group/{group}/rules", **RULE)["rule"]["id"],
        "set_id": ip_set,
        "entry_id": create(f"ip-set/{ip_set}/entries", **ENTRY)["entry"]["id"],
        "delivery_id": create(f"webhook-subscription/{subscription}/test")["delivery"]["id"],
        "disk_id": instance.disks[0].id,
        "image_id": image.id,
        "iso_id": iso.id,
        "deployment_id": create_deployed_app(instance).id,
        "app_slug": "nginx",
        "app_action": "stop",
        "backup_id": create_backup(instance).id,
        "slot": "primary",
        "resource_type": "instance",
        "resource_id": instance.id,
        "device": "primary",
        "action": "mount",
        "instance_id": instance.id,
        "key_id": create("ssh-key/generate", name="k", algorithm="ed25519")["ssh_key"]["id"],
        "member_id": create("team/subusers/invite", email="new@example.com", role_id=role)["subuser"]["id"],
        "passkey_id": passkey.id,
        "project_id": create("projects", name="p")["project"]["id"],
        "role_id": role,
        "script_id": create("user-scripts", name="s", type="sh", content="true")["script"]["id"],
        "session_id": session.scalar(select(LoginSession.id)),
        "subscription_id": subscription,
        "task_id": api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}").json["task_id"],
        "token_id": create("api-tokens", name="t", scopes=["account:read"])["api_token"]["id"],
    }


KNOWN_TYPES = {"resource_type": "instance"}


def test_unknown_and_foreign_ids_return_the_same_404(api_as, cast, all_operations, ids, resource_ids):
    """INS-36, OP-01: the answer is the same for an outsider and for a member without grants."""
    for method, path, _ in all_operations["USER"]:
        named = set(re.findall(r"{(\w+)}", path)) - CATALOG_FIELDS
        assert named <= ids.keys(), path
        for caller in ("outsider", "member") if named else ():
            if caller == "member" and named & (TEAM_FIELDS | resource_ids.keys()):
                continue
            foreign = api_as(caller, method, fill_path(path, ids), json=make_body(path, cast))
            unknown = api_as(caller, method, fill_path(path, KNOWN_TYPES), json=make_body(path, cast))
            assert (foreign.status_code, foreign.json) == (unknown.status_code, unknown.json), (caller, path)
            assert foreign.status_code == 404, (caller, path)
        if named and method == "GET":  # the ids exist: the owner finds them
            assert api_as("owner", "GET", fill_path(path, ids)).status_code != 404, path


def make_body(path, cast):
    bodies = {
        "deploy": {"image_id": cast.image.id},
        "change-plan": {"plan_id": cast.plan.id},
        "snapshot": {"name": "s"} if "volume" in path else {"snapname": "s"},
        "rollback": {"snapshot_id": UNKNOWN_ID} if "microvm" in path else {"snapname": "s"},
        "attach": {"instance_id": UNKNOWN_ID} if "volume" in path or "policy" in path else {},
        "detach": {"instance_id": UNKNOWN_ID} if "policy" in path else {},
        "resize": {"volume_plan_id": UNKNOWN_ID},
        "restore": {"mode": "in_place"} if "volume" in path else {},
        "{passkey_id}": {"password": PASSWORD},
    }
    bodies |= {"boot-order": {"boot": "disk"}, "update-name": {"name": "n"}, "tags": {"tags": ""}}
    bodies |= {"rules": RULE, "entries": ENTRY, "bulk-add": {"cidrs": [ENTRY["cidr"]]}}
    bodies |= {f"{way}-instances": {"instance_ids": [UNKNOWN_ID]} for way in ("attach", "detach")}
    bodies |= {"docker": {"app_slug": "nginx"}, "custom": {"app_name": "a", "compose_url": "https://1.1.1.1/"}}
    bodies |= {"ips": {"action": "add"}, "rdns": {"rdns": None}}
    bodies |= {"protected": {"protected": True}, "destroy": {"backups": [UNKNOWN_ID]}}
    bodies |= {"self-deploy": {"iso_id": UNKNOWN_ID}, "rescue": {"enable": True}}
    return bodies.get(path.rpartition("/")[2], {})


ALTERNATIVE_FIELDS = {"ssh_key_id": ["ssh_keys"], "remote_group_id": ["ip_set_id"], "ip_set_id": ["remote_group_id"]}
ALTERNATIVE_FIELDS |= {"image_id": ["iso_id"], "instance_id": ["backup_id"], "backup_id": ["instance_id"]}
"""Other names of the same field, which take precedence, or fields that may not be sent with it."""
EXCLUSIVE_FIELDS = {"ip_set_id", "backup_id"}


def create_body_resources(api_as, cast, caller):
    """Create resources of an account. Return their ids by the names of the fields in bodies."""
    access = cast.owner if caller == "owner" else cast.outsider
    key = api_as(caller, "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"}).json["ssh_key"]
    project = api_as(caller, "POST", "/api/projects", json={"name": "p"}).json["project"]
    script = {"name": "s", "type": "sh", "content": "true"}
    script = api_as(caller, "POST", "/api/user-scripts", json=script).json["script"]
    role = api_as(caller, "POST", "/api/team/roles", json={"name": "r", "permissions": []}).json["role"]
    group = api_as(caller, "POST", "/api/security-groups", json={"name": "g"}).json["security_group"]
    ip_set = api_as(caller, "POST", "/api/ip-sets", json={"name": "s", "ip_version": "ipv4"}).json["ip_set"]
    channel = {"name": "c", "type": "mail"}
    channel = api_as(caller, "POST", "/api/notification-channels", json=channel).json["channel"]
    image, iso = create_image_and_iso(access)
    stopped = cast.instance(caller)
    stopped.deployed = True
    session.commit()
    pack_size = {"cpu_cores": 8, "ram": 8192, "storage": 100}
    return {
        "instance_id": stopped.id,
        "iso_id": iso.id,
        "project_id": project["id"],
        "role_id": role["id"],
        "image_id": image.id,
        "ssh_key_id": key["id"],
        "ssh_keys": [key["id"]],
        "user_scripts": [script["id"]],
        "project_ids": [project["id"]],
        "resource_id": (instance := cast.instance(caller)).id,
        "resource_ids": [instance.id],
        "disk_ids": [instance.disks[0].id],
        "remote_group_id": group["id"],
        "ip_set_id": ip_set["id"],
        "instance_ids": [cast.instance(caller).id],
        "channel_ids": [channel["id"]],
        "backup_id": create_backup(stopped).id,
        "target_disk_id": stopped.disks[0].id,
        "pack_id": resource_packs.create(user_id=access.id, name="pack", **pack_size).id,
    }


def create_microvm_ids(api_as, cast, caller):
    """Create an image, a running micro VM and its snapshot for an account. Return their ids."""
    image = register_image(f"of-{caller}", aliases=[], account_id=getattr(cast, caller).id)
    body = {"location_id": cast.location.id, "image_id": image.id, "name": "m"}
    microvm_id = api_as(caller, "POST", "/api/microvm/vms", json=body).json["vm"]["id"]
    session.execute(delete(Task).where(Task.resource_id == microvm_id))
    microvm = session.get(Microvm, microvm_id)
    microvm.state = "running"
    snapshot = MicrovmSnapshot(microvm=microvm, name="s", status="available")
    session.add(snapshot)
    session.commit()
    ids = {"image_id": image.id, "microvm_id": microvm_id, "snapshot_id": snapshot.id}
    return {**ids, "location_id": cast.location.id}


def create_volume_and_snapshot(api_as, place):
    """Create a volume of the owner with a snapshot. Return their ids."""
    volume_id = api_as("owner", "POST", "/api/storage/volumes", json={"name": "v", **place}).json["volume"]["id"]
    volume = session.get(Volume, volume_id)
    volume.status = "available"
    snapshot = VolumeSnapshot(volume_id=volume_id, storage_id=volume.storage_id, name="s", size=1, status="available")
    session.add(snapshot)
    session.commit()
    return volume_id, snapshot.id


def create_volume_backup(instance, volume_id):
    """Create a complete backup of a volume of the instance's owner, without a point."""
    backup = create_backup(instance)
    backup.instance_id, backup.volume_id = "", volume_id
    backup.disks = [{"id": volume_id, "name": "v", "position": 0, "size": 1024**3, **READ}]
    session.commit()
    return backup


@pytest.fixture
def request_bodies(api_as, cast, change_config):
    """Return ids of the owner's resources, the same ids of another account, and valid paths and bodies by operation."""
    change_config(sandbox_domain="sandboxes.example.net")
    own, others = (create_body_resources(api_as, cast, caller) for caller in ("owner", "outsider"))
    profiles.create(hypervisor_id=cast.node.id)
    own["microvm"], others["microvm"] = (create_microvm_ids(api_as, cast, caller) for caller in ("owner", "outsider"))
    live = session.get(Instance, own["resource_id"])
    live.deployed, live.power = True, "on"
    session.commit()
    member = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).id
    plan = volume_plans.create(volume_plans.create_group(name="ssd"), name="v", size=1)
    session.commit()
    place = {"volume_plan_id": plan.id, "hypervisor_group_id": cast.location.id}
    volume_id, snapshot_id = create_volume_and_snapshot(api_as, place)
    kind = {"resource_type": "instance"}
    running = [cast.instance() for _ in range(2)]
    for instance in running:
        instance.deployed, instance.power = True, "on"
    session.commit()
    restored = cast.instance()
    restored.deployed, own["target_disk_id"] = True, restored.disks[0].id
    session.commit()
    body = {"name": "nightly", "retention_count": 1}
    policy_id = api_as("owner", "POST", "/api/backup-policies", json=body).json["policy"]["id"]
    alert = {"name": "a", "resource_type": "instance", "metric": "cpu_pct", "operator": "gt", "threshold": 90}
    alert_id = api_as("owner", "POST", "/api/alert-rules", json=alert).json["alert_rule"]["id"]
    invitation = {"email": "new@example.com", "reach": "projects"}
    drive = {"instance_id": cast.instance().id, "slot": "primary", "device": "primary", "action": "mount"}
    return (
        own,
        others,
        {
            ("POST", "/api/instance/{instance_id}/deploy"): ({"instance_id": cast.instance().id}, {}),
            ("POST", "/api/instance/{instance_id}/forge/enable"): ({"instance_id": own["resource_id"]}, {}),
            ("POST", "/api/instance/{instance_id}/reinstall"): ({"instance_id": running[0].id}, {}),
            ("POST", "/api/instance/{instance_id}/ssh-keys"): ({"instance_id": running[1].id}, {}),
            ("POST", "/api/storage/volumes"): ({}, {"name": "v", **place}),
            ("POST", "/api/storage/volume/{volume_id}/attach"): ({"volume_id": volume_id}, {}),
            ("POST", "/api/storage/volume/{volume_id}/snapshot/{snapshot_id}/restore"): (
                {"volume_id": volume_id, "snapshot_id": snapshot_id},
                {"mode": "new_volume", **place},
            ),
            ("POST", "/api/storage/volume/{volume_id}/backup/{backup_id}/restore"): (
                {"volume_id": volume_id, "backup_id": create_volume_backup(restored, volume_id).id},
                {"mode": "new_volume", **place},
            ),
            ("POST", "/api/instance/{instance_id}/self-deploy"): ({"instance_id": cast.instance().id}, {}),
            ("POST", "/api/instance/{instance_id}/iso/{slot}/mount"): (drive, {}),
            ("POST", "/api/instance/{instance_id}/iso/{device}/{action}"): (drive, {}),
            ("POST", "/api/images"): ({}, {"name": "golden"}),
            ("POST", "/api/instance/{instance_id}/backup/{backup_id}/restore"): (
                {"instance_id": restored.id, "backup_id": create_backup(restored).id},
                {},
            ),
            **{
                ("POST", f"/api/backup-policy/{{policy_id}}/{action}"): ({"policy_id": policy_id}, {})
                for action in ("attach", "detach")
            },
            ("POST", "/api/alert-rules"): ({}, alert),
            ("PATCH", "/api/alert-rule/{alert_rule_id}"): ({"alert_rule_id": alert_id}, {}),
            ("POST", "/api/microvm/vms"): ({}, {"name": "m", "location_id": cast.location.id}),
            ("POST", "/api/microvm/connectors"): ({}, {"port": 80}),
            ("PATCH", "/api/microvm/settings"): ({}, {}),
            ("POST", "/api/microvm/images"): ({}, {"name": "i", "commands": ["true"]}),
            ("POST", "/api/microvm/vm/{microvm_id}/rollback"): ({"microvm_id": own["microvm"]["microvm_id"]}, {}),
            ("POST", "/api/self-provisioning/instances"): (
                {},
                {"location_id": cast.location.id, "plan_id": cast.plan.id},
            ),
            ("POST", "/api/project/assign-resource"): ({}, kind),
            **{
                ("POST", f"/api/security-group/{{group_id}}/{way}"): ({"group_id": own["remote_group_id"]}, body)
                for way, body in (("rules", RULE), ("attach-instances", {}), ("detach-instances", {}))
            },
            ("POST", "/api/project/bulk-assign"): ({}, {"resources": [{**kind, "resource_id": own["resource_id"]}]}),
            ("POST", "/api/team/subusers/invite"): ({}, invitation),
            ("PATCH", "/api/team/subuser/{member_id}/role"): ({"member_id": member}, {"reach": "projects"}),
        },
    )


def find_id_fields(app, operation):
    """Yield the properties of the operation's body that contain ids."""
    schemas = app.extensions["openapi"]["USER"].spec.to_dict()["components"]["schemas"]
    content = operation.get("requestBody", {}).get("content", {})
    for media_type in content.values():
        schema = media_type["schema"]
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        yield from (
            name for name in schema.get("properties", {}) if name.endswith(("_id", "_ids", "_keys", "_scripts"))
        )


def test_foreign_and_unknown_ids_in_bodies_return_the_same_error(
    api_as, app, cast, all_operations, request_bodies, monkeypatch
):
    """5.12, OP-01: the id of another account's resource in a body gets the same answer as an unknown id."""
    monkeypatch.setattr(reachability, "wait_for_poll", lambda *_: None)  # no node has these instances
    all_own, all_others, request_bodies_by_path = request_bodies
    checked_fields = 0
    for method, path, operation in all_operations["USER"]:
        named = set(find_id_fields(app, operation)) - CATALOG_FIELDS
        if not named:
            continue
        places, body = request_bodies_by_path[method, path]
        own, others = (ids["microvm"] if "/microvm/" in path else ids for ids in (all_own, all_others))
        right = {name: own[name] for name in named}
        for field in sorted(named):
            answers = []
            for value in (others[field], [UNKNOWN_ID] if isinstance(own[field], list) else UNKNOWN_ID):
                other_ids = {name: right[name] for name in named if name not in ALTERNATIVE_FIELDS.get(field, ())}
                answer = api_as("owner", method, fill_path(path, places), json={**other_ids, **body, field: value})
                answers.append((answer.status_code, answer.json))
            assert answers[0] == answers[1], (path, field)
            assert answers[0][0] in (404, 422), (path, field, answers)
            checked_fields += 1
        alone = {name: value for name, value in right.items() if name not in EXCLUSIVE_FIELDS}
        accepted = api_as("owner", method, fill_path(path, places), json={**alone, **body})
        assert accepted.status_code < 300, (path, accepted.json)
    assert checked_fields > 10
