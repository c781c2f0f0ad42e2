"""The accounts of every test, and a small platform: one location with a simulated node.

`owner` has the resources and a team: `member` has all permissions on the resources granted to it, `viewer` can view
everything. `outsider` is another customer, who must not see any of it. `admin` is the operator.
"""

from dataclasses import dataclass, field

from panel.auth import permissions
from panel.core.db import session
from panel.models import Account, Hypervisor, HypervisorGroup, Image, Member, Plan, Role
from panel.services import accounts, catalog, hypervisors, instances, subnets, tokens
from worker.sync import node_sync as nodes

ROWS = ("owner", "member", "viewer", "outsider", "admin", "location", "node", "plan", "image")
PASSWORD = "a long test password"
UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
"""The id of no row."""


@dataclass
class Cast:
    owner: Account
    member: Account
    viewer: Account
    outsider: Account
    admin: Account
    location: HypervisorGroup
    node: Hypervisor
    plan: Plan
    image: Image
    tokens: dict[str, str] = field(default_factory=dict)

    def headers(self, caller):
        """Return the Authorization header of an account, or of `admin` or `billing` (platform tokens); else {}."""
        return {"Authorization": f"Bearer {self.tokens[caller]}"} if caller in self.tokens else {}

    def instance(self, caller="owner", **values):
        """Create an instance without deploying it."""
        arguments = {"location_id": self.location.id, "plan_id": self.plan.id, "actor": "test", **values}
        instance = instances.create(getattr(self, caller), **arguments)
        session.commit()
        return instance


def create_cast(data_dir) -> Cast:
    owner = accounts.create(email="owner@example.com", password=PASSWORD, first_name="Olga", last_name="Owner")
    outsider = accounts.create(email="outsider@example.com", password=PASSWORD)
    member = add_team_member(owner, "member@example.com", "Engineer", permissions.MEMBER_PERMISSIONS, reach="chosen")
    viewer = add_team_member(
        owner, "viewer@example.com", "Viewer", [f"{family}.view" for family in permissions.PERMISSION_FAMILIES]
    )
    admin = accounts.create(email="admin@example.com", password=PASSWORD, operator_role="full")
    location = hypervisors.create_group(name="lab", display_name="Laboratory", country="DE")
    node = hypervisors.create(
        location, name="node-1", driver="simulated", uri="simulated://", storage_path="/srv/disks", max_tasks=8
    )
    session.commit()
    nodes.probe(node.id)
    group = catalog.create_plan_group(name="standard", display_name="Standard", hypervisor_groups=[location])
    plan = catalog.create_plan(group, name="S", cpu_cores=1, ram=512, storage=10, bandwidth=1000, price=4)
    (data_dir / "images").mkdir(exist_ok=True)
    (data_dir / "images" / "tiny.qcow2").write_bytes(b"QFI\xfb" + bytes(60))
    image = catalog.register_image(
        name="tiny",
        label="Debian 12 (tiny)",
        distro="Debian",
        version="12",
        filename="tiny.qcow2",
        size=64,
        sha256="ab" * 32,
        min_ram=192,
    )
    subnets.create(location, name="v4", cidr="10.9.0.0/24", gateway="10.9.0.1", nameservers=["10.9.0.1"])
    subnets.create(location, name="v6", cidr="fd99::/64", gateway="fd99::1")
    cast = Cast(owner, member, viewer, outsider, admin, location, node, plan, image)
    for caller in ("owner", "member", "viewer", "outsider"):
        cast.tokens[caller] = tokens.issue(
            "user", name="test", account=getattr(cast, caller), scopes=permissions.USER_SCOPES
        )[1]
    for kind in ("admin", "billing"):
        cast.tokens[kind] = tokens.issue(kind, name="test")[1]
    session.commit()
    return cast


def add_team_member(owner, email, role, allowed, reach="all"):
    """Create an account with a role in the owner's team."""
    account = accounts.create(email=email, password=PASSWORD)
    role = Role(account_id=owner.id, name=role, permissions=list(allowed))
    session.add(role)
    session.flush()
    session.add(
        Member(
            owner_id=owner.id,
            account_id=account.id,
            role_id=role.id,
            email=email,
            reach=reach,
            invited_at=account.created_at,
        )
    )
    session.flush()
    return account
