"""Prefixes and private addresses of an instance: all that the plan includes are allocated, or none."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, HypervisorGroup, Instance, Plan, Subnet
from panel.services import catalog, instances, subnets
from worker.tasks import cloud_init, firewall

PREFIXES = ["2001:db8::/64", "2001:db8:0:1::/64", "2001:db8:0:2::/64", "2001:db8:0:3::/64"]


@pytest.fixture
def address_pools(cast):
    """Four prefixes and two private addresses, and a plan that comes with one of each."""
    subnets.create(cast.location, name="routed", kind="routed", cidr="2001:db8::/62")
    subnets.create(cast.location, name="private", kind="private", cidr="10.20.0.0/30", gateway=None)
    cast.plan.ipv6_prefixes = cast.plan.private_ipv4 = 1
    session.commit()


@pytest.fixture
def deployed_instance(api_as, cast, address_pools, run_tasks):
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    return session.get(Instance, instance.id)


def change_network(as_, instance, action, caller="owner", **body):
    prefix = "/api/v1" if caller == "admin" else "/api"
    return as_(caller, "POST", f"{prefix}/instance/{instance.id}/ips", json={"action": action, **body})


def get_instance(as_, instance):
    return as_("owner", "GET", f"/api/instance/{instance.id}").json


# --- create


def test_instance_gets_addresses_and_prefixes_of_plan(api_as, cast, address_pools):
    item = get_instance(api_as, cast.instance())
    assert item["primary_private_ip"] == {"ip": "10.20.0.1"}
    assert [ipv6_prefix["prefix"] for ipv6_prefix in item["ipv6_prefixes"]] == PREFIXES[:1]
    assert item["ipv6_prefixes"][0]["interface_id"] == item["primary_interface"]["id"]
    assert (item["primary_public_ip"], item["primary_public_ipv6"]) == ({"ip": "10.9.0.2"}, {"ip": "fd99::2"})
    assert [
        listed_instance["primary_private_ip"]
        for listed_instance in api_as("owner", "GET", "/api/instances").json["data"]
    ] == [{"ip": "10.20.0.1"}]
    rows = api_as("owner", "GET", f"/api/instance/{item['id']}/ips").json["data"]
    assert [(row["ip"], row["kind"], row["is_primary"]) for row in rows] == [
        ("10.9.0.2", "public", True),
        ("10.20.0.1", "private", True),
        ("fd99::2", "public", True),
    ]


def test_instance_without_prefixes_has_null_and_empty_fields(api_as, cast):
    item = get_instance(api_as, cast.instance())
    assert (item["primary_private_ip"], item["ipv6_prefixes"]) == (None, [])


CREATE_ROUTES = [
    ("owner", "/api/cloud-service/instances", {}),
    ("owner", "/api/self-provisioning/instances", {}),
    ("admin", "/api/v1/instances", {"user_id": True}),
    ("billing", "/api/v1/billing/instances", {"user_id": True}),
]


@pytest.mark.parametrize(("caller", "path", "fields"), CREATE_ROUTES)
@pytest.mark.parametrize(("kind", "text"), [("routed", "ipv6_subnet"), ("private", "private_ipv4")])
def test_create_on_each_route_without_free_addresses_is_refused(
    api_as, cast, address_pools, caller, path, fields, kind, text
):
    """INS-72, INS-73, INS-74, INS-75: on all four routes, with a reason and without internals; no row is kept."""
    session.scalar(select(Subnet).where(Subnet.kind == kind)).enabled = False
    session.commit()
    before = api_as("admin", "GET", "/api/v1/subnets").json["data"]
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id, **({"user_id": cast.owner.id} if fields else {})}
    for _ in range(2):
        answer = api_as(caller, "POST", path, json=body)
        assert (answer.status_code, answer.json["reason"]) == (422, f"{text}_not_available")
        assert not [leak for leak in ("10.20", "2001:db8", "node-1") if leak in answer.text]
    assert session.scalar(select(Instance)) is None
    assert session.scalar(select(Address).where(Address.interface_id.is_not(None))) is None
    assert api_as("admin", "GET", "/api/v1/subnets").json["data"] == before


def test_last_private_address_is_allocated_once(api_as, cast, address_pools):
    """INS-73: the pool has two private addresses."""
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    create = lambda: api_as("owner", "POST", "/api/cloud-service/instances", json=body)  # noqa: E731
    assert [create().status_code for _ in range(2)] == [200, 200]
    assert create().json["reason"] == "private_ipv4_not_available"


def test_destroy_frees_prefixes_and_private_addresses(api_as, cast, deployed_instance, run_tasks):
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{deployed_instance.id}")
    run_tasks()
    assert session.scalar(select(Address).where(Address.interface_id.is_not(None))) is None
    assert [prefix.ip for prefix in cast.instance().prefixes] == PREFIXES[:1]


# --- plan changes


@pytest.fixture
def create_larger_plan(cast, address_pools):
    def make(name, **values):
        group = session.get(Plan, cast.plan.id).group
        plan = catalog.create_plan(group, name=name, cpu_cores=1, ram=512, storage=20, **values)
        session.commit()
        return plan

    return make


def change_plan(as_, instance, plan, caller="owner"):
    path = f"/api{'/v1' if caller == 'admin' else ''}/instance/{instance.id}/change-plan"
    return as_(caller, "POST", path, json={"plan_id": plan.id})


def test_plan_change_allocates_more_addresses_immediately(
    api_as, deployed_instance, create_larger_plan, run_tasks, node
):
    """The node allows them for the running guest without a restart."""
    assert (
        change_plan(api_as, deployed_instance, create_larger_plan("L", ipv6_prefixes=3, private_ipv4=2)).status_code
        == 200
    )
    run_tasks()
    [card] = node.get_nics(deployed_instance.id)
    assert set(card["prefixes"]) == set(PREFIXES[:3])
    assert {"10.20.0.1", "10.20.0.2"} <= set(card["addresses"])
    assert session.get(Instance, deployed_instance.id).private_ipv4 == "10.20.0.1"


@pytest.mark.parametrize("caller", ["owner", "admin"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ipv6_prefixes": 5}, "plan_ipv6_subnet_unavailable"),
        ({"ipv6_prefixes": 2, "private_ipv4": 3}, "plan_private_ipv4_unavailable"),
    ],
)
def test_plan_change_without_free_addresses_is_refused(
    api_as, deployed_instance, create_larger_plan, caller, fields, reason
):
    """INS-85, INS-86: three requests get the same answer and change nothing."""
    plan = create_larger_plan("XL", **fields)
    list_subnets = lambda: api_as("admin", "GET", "/api/v1/subnets").json["data"]  # noqa: E731
    before = list_subnets()
    answers = [change_plan(api_as, deployed_instance, plan, caller) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {422}
    assert answers[0].json == answers[1].json == answers[2].json
    assert (answers[0].json["reason"], list(answers[0].json["errors"])) == (reason, ["plan_id"])
    assert list_subnets() == before
    instance = session.get(Instance, deployed_instance.id)
    assert (instance.plan.name, len(instance.prefixes), len(instance.addresses), instance.storage) == ("S", 1, 3, 10)


# --- single addresses


def test_customer_removes_and_readds_plan_addresses(api_as, deployed_instance, run_tasks, node):
    refused = change_network(api_as, deployed_instance, "add", kind="routed")
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["count"])
    assert change_network(api_as, deployed_instance, "remove", ips=[PREFIXES[0]]).status_code == 200
    assert change_network(api_as, deployed_instance, "remove", ips=["10.20.0.1"]).status_code == 200
    run_tasks()
    [card] = node.get_nics(deployed_instance.id)
    assert (card["prefixes"], "10.20.0.1" in card["addresses"]) == ([], False)
    assert get_instance(api_as, deployed_instance)["primary_private_ip"] is None
    taken = change_network(api_as, deployed_instance, "add", kind="routed").json["ips"]
    assert [(address["ip"], address["kind"], address["family"]) for address in taken] == [(PREFIXES[0], "routed", 6)]
    taken = change_network(api_as, deployed_instance, "add", kind="private").json["ips"]
    assert [(address["ip"], address["is_primary"]) for address in taken] == [("10.20.0.1", True)]
    run_tasks()
    [card] = node.get_nics(deployed_instance.id)
    assert (card["prefixes"], "10.20.0.1" in card["addresses"]) == (PREFIXES[:1], True)


@pytest.mark.parametrize(("kind", "text"), [("routed", "ipv6_subnet"), ("private", "private_ipv4")])
def test_add_without_free_addresses_is_refused(api_as, deployed_instance, kind, text):
    answer = change_network(api_as, deployed_instance, "add", "admin", kind=kind, count=9)
    assert (answer.status_code, answer.json["reason"]) == (422, f"{text}_not_available")


def test_private_addresses_are_counted_apart_from_public_ones(api_as, deployed_instance):
    """Each kind has its own count in the plan and its own primary address."""
    assert change_network(api_as, deployed_instance, "add", "admin", kind="private").status_code == 200
    addresses = get_instance(api_as, deployed_instance)["primary_interface"]["addresses"]
    private = [address["ip"] for address in addresses if address["kind"] == "private"]
    assert private == ["10.20.0.1", "10.20.0.2"]
    assert change_network(api_as, deployed_instance, "remove", ips=["10.20.0.1"]).status_code == 422
    assert change_network(api_as, deployed_instance, "set-primary", ips=["10.20.0.2"]).status_code == 200
    item = get_instance(api_as, deployed_instance)
    assert (item["primary_private_ip"], item["primary_public_ip"]) == ({"ip": "10.20.0.2"}, {"ip": "10.9.0.2"})
    assert change_network(api_as, deployed_instance, "remove", ips=["10.20.0.1"]).status_code == 200
    assert change_network(api_as, deployed_instance, "remove", ips=["10.9.0.2"]).status_code == 200, (
        "the last public address may be removed"
    )


def test_operator_adds_chosen_prefix(api_as, cast, deployed_instance):
    other = cast.instance()
    change_network(api_as, other, "remove", ips=[PREFIXES[1]])
    given = change_network(api_as, deployed_instance, "add", "admin", ips=[PREFIXES[1]]).json["data"]["ips"]
    assert [address["ip"] for address in given] == PREFIXES[1:2]
    again = change_network(api_as, other, "add", "admin", ips=[PREFIXES[1]])
    assert (again.status_code, list(again.json["errors"])) == (422, ["ips"])
    assert len(get_instance(api_as, deployed_instance)["ipv6_prefixes"]) == 2


def test_prefix_cannot_be_primary_or_have_rdns(api_as, deployed_instance):
    [prefix] = get_instance(api_as, deployed_instance)["ipv6_prefixes"]
    answer = change_network(api_as, deployed_instance, "set-primary", ips=[prefix["id"]])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])
    assert api_as("admin", "POST", f"/api/v1/ip/{prefix['id']}/rdns", json={"rdns": "a.example"}).status_code == 409
    path = f"/api/instance/{deployed_instance.id}/ip/{prefix['id']}/rdns"
    assert api_as("owner", "POST", path, json={"rdns": "a.example"}).status_code == 404


def test_prefix_of_other_account_cannot_be_removed(api_as, cast, deployed_instance):
    foreign_instance = cast.instance("outsider")
    assert change_network(api_as, foreign_instance, "remove", ips=[PREFIXES[1]]).status_code == 404
    assert change_network(api_as, deployed_instance, "remove", ips=[PREFIXES[1]]).status_code == 422
    assert [prefix.ip for prefix in session.get(Instance, foreign_instance.id).prefixes] == PREFIXES[1:2]


def test_search_finds_instance_by_prefix_and_private_address(api_as, cast, deployed_instance):
    cast.instance()
    for search in ("ip:2001:db8::/", "ip:10.20.0.1", "ip:10.20.0.1 ip:2001:db8::/64"):
        listed_instances = api_as("owner", "GET", "/api/instances", query_string={"search": search}).json["data"]
        assert [listed_instance["id"] for listed_instance in listed_instances] == [deployed_instance.id], search


# --- configuration of node and guest


def test_node_nic_has_all_addresses_and_prefixes(deployed_instance, node):
    [card] = node.get_nics(deployed_instance.id)
    assert card["addresses"] == ["10.9.0.2", "10.20.0.1", "fd99::2"]
    assert card["prefixes"] == PREFIXES[:1]


def test_cloud_init_network_has_prefix_and_private_addresses(cast, address_pools):
    network = cloud_init.build_network_config(instances.find_by_id(cast.instance().id))
    nic = network["ethernets"]["nic0"]
    assert nic["addresses"] == ["10.9.0.2/24", "fd99::2/64", "10.20.0.1/30", "2001:db8::1/64"]
    assert nic["routes"] == [{"to": "0.0.0.0/0", "via": "10.9.0.1"}, {"to": "::/0", "via": "fd99::1"}]


def test_private_gateway_is_used_only_without_public_address(cast):
    subnets.create(cast.location, name="private", kind="private", cidr="10.3.0.0/24", gateway="10.3.0.1")
    routed = {"kind": "routed", "cidr": "2001:db8::/48", "gateway": "2001:db8::1", "nameservers": ["fd00::5"]}
    subnets.create(cast.location, name="routed", **routed)
    cast.plan.ipv6_prefixes = cast.plan.private_ipv4 = 1
    session.commit()
    both = cloud_init.build_network_config(instances.find_by_id(cast.instance().id))["ethernets"]["nic0"]
    assert both["routes"] == [{"to": "0.0.0.0/0", "via": "10.9.0.1"}, {"to": "::/0", "via": "fd99::1"}]
    assert both["nameservers"]["addresses"] == ["10.9.0.1", "fd00::5"]
    cast.plan.ipv4 = cast.plan.ipv6 = 0
    session.commit()
    alone = cloud_init.build_network_config(instances.find_by_id(cast.instance().id))["ethernets"]["nic0"]
    assert alone["addresses"] == ["10.3.0.3/24", "2001:db8:0:2::1/64"]
    assert alone["routes"] == [
        {"to": "0.0.0.0/0", "via": "10.3.0.1"},
        {"to": "::/0", "via": "2001:db8::1", "on-link": True},
    ]


def test_location_without_public_networking_allocates_only_private_addresses(
    api_as, cast, address_pools, run_tasks, node
):
    session.get(HypervisorGroup, cast.location.id).public_networking_enabled = False
    session.commit()
    instance = cast.instance()
    item = get_instance(api_as, instance)
    assert [card["kind"] for card in item["interfaces"]] == ["private"]
    assert (item["primary_public_ip"], item["primary_private_ip"]) == (None, {"ip": "10.20.0.1"})
    assert item["ipv6_prefixes"] == []
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert [card["addresses"] for card in node.get_nics(instance.id)] == [["10.20.0.1"]]
    for body in ({}, {"ips": ["10.9.0.9"]}, {"kind": "routed"}):
        assert change_network(api_as, instance, "add", "admin", **body).status_code == 409
    assert change_network(api_as, instance, "add", "admin", kind="private").status_code == 200


def test_plan_change_keeps_private_only_interface(api_as, cast, address_pools, create_larger_plan, run_tasks):
    """The new plan adds only private addresses, although the location has public networking again."""
    group = session.get(HypervisorGroup, cast.location.id)
    group.public_networking_enabled = False
    session.commit()
    instance = cast.instance()
    bare = create_larger_plan("bare")
    session.get(Plan, cast.plan.id).private_ipv4 = 0
    session.commit()
    alone = cast.instance()
    assert (get_instance(api_as, alone)["interfaces"], alone.primary_interface) == ([], None)
    for machine in (instance, alone):
        api_as("owner", "POST", f"/api/instance/{machine.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    session.get(HypervisorGroup, cast.location.id).public_networking_enabled = True
    session.commit()
    assert change_plan(api_as, instance, create_larger_plan("L", private_ipv4=2)).status_code == 200
    assert [address.ip for address in session.get(Instance, instance.id).addresses] == ["10.20.0.1", "10.20.0.2"]
    assert change_plan(api_as, alone, bare).status_code == 200
    item = get_instance(api_as, alone)
    assert ([card["kind"] for card in item["interfaces"]], item["primary_public_ip"]) == (
        ["public"],
        {"ip": "10.9.0.2"},
    )


def test_remote_group_rule_allows_private_addresses_and_prefixes(api_as, cast, deployed_instance):
    """The rule includes every address that a member may send from."""
    group = api_as("owner", "POST", "/api/security-groups", json={"name": "g"}).json["security_group"]["id"]
    for version in ("ipv4", "ipv6"):
        rule = {"direction": "ingress", "protocol": "all", "ip_version": version, "remote_group_id": group}
        assert api_as("owner", "POST", f"/api/security-group/{group}/rules", json=rule).status_code in (200, 201)
    path = f"/api/security-group/{group}/attach-instances"
    assert api_as("owner", "POST", path, json={"instance_ids": [deployed_instance.id]}).status_code == 200
    allowed = {
        rule.network
        for rule in firewall.build_rules(instances.find_by_id(deployed_instance.id))
        if rule.direction == "in"
    }
    assert allowed == {"10.9.0.2/32", "10.20.0.1/32", "fd99::2/128", "2001:db8::/64"}


def test_instance_list_with_prefixes_has_constant_query_count(api_as, cast, address_pools, queries):
    subnets.create(session.merge(cast.location), name="more", kind="routed", cidr="2001:db9::/48")
    session.get(Plan, cast.plan.id).private_ipv4 = 0
    session.commit()
    path = "/api/v1/instances"
    cast.instance()
    api_as("admin", "GET", path)
    queries.clear()
    api_as("admin", "GET", path)
    few = len(queries)
    for _ in range(12):
        cast.instance()
    queries.clear()
    assert len(api_as("admin", "GET", path).json["data"]) == 13
    assert len(queries) == few
