"""Internet access of sandboxes, at creation and by `PUT /sandboxes/{id}/network`."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Microvm
from panel.services import hypervisors
from panel.services.microvms import profiles

PUBLIC, OTHER = "8.8.8.8", "9.9.9.9"


@pytest.fixture
def connected(profile):
    """The profile, which allows internet access."""
    profiles.update(profile, allows_internet_access=True)
    session.commit()
    return profile


@pytest.fixture
def create(create_sandbox):
    """Return a function that creates a running sandbox and returns its path and row."""

    def create_and_read(**body):
        sandbox_id = create_sandbox(**body)["sandboxID"]
        return f"/sandboxes/{sandbox_id}", session.scalars(select(Microvm).filter_by(sandbox_id=sandbox_id)).one()

    return create_and_read


@pytest.fixture
def reached(short_deadline_node):
    """Return a function that lists which of two public addresses a sandbox may send to."""
    return lambda row: [address for address in (PUBLIC, OTHER) if short_deadline_node.can_send(row.id, address)]


@pytest.mark.parametrize("body", [{}, {"allow_internet_access": True}, {"network": {"denyOut": [PUBLIC]}}])
def test_sdk_default_gets_no_internet_where_operator_allows_none(call, create, reached, body):
    path, row = create(**body)
    shown = call("GET", path).json
    assert (shown["allowInternetAccess"], row.address, reached(row)) == (False, None, [])


def test_networks_to_allow_are_refused_where_operator_allows_none(call, image, profile, create):
    answer = call("POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowOut": [PUBLIC]}})
    assert (answer.status_code, answer.json["code"], answer.json["error_code"]) == (400, 400, "no_internet_access")
    assert answer.json["message"].startswith("network.allowOut: ")
    path, row = create()
    for name, value in (("allowOut", [PUBLIC]), ("allow_internet_access", True)):
        answer = call("PUT", f"{path}/network", {name: value})
        assert (answer.status_code, answer.json["error_code"]) == (400, "no_internet_access")
        assert answer.json["message"].startswith(f"{name}: ")
    for body in ({}, {"allow_internet_access": False}, {"denyOut": [PUBLIC, "::/0"]}):
        assert call("PUT", f"{path}/network", body).status_code == 204
        assert call("GET", path).json["allowInternetAccess"] is False
    assert row.deny_out == [f"{PUBLIC}/32", "::/0"]


@pytest.mark.parametrize(
    ("body", "is_on", "expected"),
    [
        ({}, True, [PUBLIC, OTHER]),
        ({"allow_internet_access": False}, False, []),
        ({"network": {"denyOut": ["0.0.0.0/0"], "allowOut": [OTHER]}}, True, [OTHER]),
        ({"allow_internet_access": False, "network": {"allowOut": [PUBLIC]}}, False, [PUBLIC]),
        ({"network": {"denyOut": ["8.0.0.0/8"], "allowOut": ["8.8.8.0/24"]}}, True, [PUBLIC, OTHER]),
    ],
)
def test_create_honors_the_network(call, connected, create, reached, body, is_on, expected):
    path, row = create(**body)
    shown = call("GET", path).json
    assert (shown["allowInternetAccess"], reached(row)) == (is_on, expected)
    assert shown["network"] == {"allowOut": row.allow_out, "denyOut": row.deny_out}


def test_network_of_running_sandbox_is_replaced(call, connected, create, reached, run_tasks):
    """Fields that are left out are cleared."""
    path, row = create()
    for body, is_on, expected in (
        ({"allow_internet_access": False}, False, []),
        ({"denyOut": ["8.0.0.0/8"]}, True, [OTHER]),
        ({"denyOut": ["0.0.0.0/0"], "allowOut": [PUBLIC]}, True, [PUBLIC]),
        ({"allowOut": [OTHER], "allow_internet_access": False}, False, [OTHER]),
        ({"allowOut": None, "denyOut": None, "allow_internet_access": None}, True, [PUBLIC, OTHER]),
        (None, True, [PUBLIC, OTHER]),
    ):
        assert call("PUT", f"{path}/network", body).status_code == 204, body
        run_tasks()
        assert (call("GET", path).json["allowInternetAccess"], reached(row)) == (is_on, expected), body


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"allowOut": ["example.com"]}, "allowOut.0"),
        ({"allowOut": [PUBLIC, "*.example.com"]}, "allowOut.1"),
        ({"allowOut": ["2001:db8::1"]}, "allowOut.0"),
        ({"denyOut": ["8.8.8.8/40"]}, "denyOut.0"),
        ({"denyOut": [7]}, "denyOut.0"),
        ({"denyOut": PUBLIC}, "denyOut"),
        ({"denyOut": [f"8.8.{number}.1" for number in range(101)]}, "denyOut"),
        ({"allow_internet_access": "no"}, "allow_internet_access"),
        ({"rules": {"example.com": []}}, "rules"),
        ({"egressProxy": {"address": "proxy:1080"}}, "egressProxy"),
    ],
)
def test_invalid_network_is_refused_with_its_field(call, connected, create, body, field):
    path, row = create()
    answer = call("PUT", f"{path}/network", body)
    assert (answer.status_code, answer.json["code"]) == (400, 400)
    assert answer.json["message"].startswith(f"Invalid body: {field}: ")
    assert (row.allow_out, row.deny_out, row.allow_internet_access) == ([], [], True)


def test_paused_sandbox_has_the_new_network_when_it_resumes(call, connected, create, reached, run_tasks):
    path, row = create()
    call("POST", f"{path}/pause")
    run_tasks()
    assert call("PUT", f"{path}/network", {"allow_internet_access": False}).status_code == 204
    run_tasks()
    call("POST", f"{path}/connect", {"timeout": 60})
    run_tasks()
    assert (row.state, reached(row)) == ("running", [])


def test_location_with_internet_access_is_chosen_for_networks_to_allow(call, cast, image, profile, refresh_node):
    location = hypervisors.create_group(name="zeta", display_name="Zeta", country="DE")
    node = hypervisors.create(
        location, name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/disks"
    )
    refresh_node(node)
    profiles.create(hypervisor_id=node.id, allows_internet_access=True)
    session.commit()
    locations = []
    for network in ({}, {"allowOut": [PUBLIC]}):
        sandbox_id = call("POST", "/v2/sandboxes", {"templateID": "base", "network": network}).json["sandboxID"]
        locations.append(session.scalars(select(Microvm).filter_by(sandbox_id=sandbox_id)).one().group_id)
    assert locations == [cast.location.id, location.id]


@pytest.fixture
def refresh_node():
    """Return a function that gives a node room for micro VMs, as a poll would."""

    def refresh(node):
        node.status, node.cpu_cores, node.memory_mb = "up", 64, 2**20
        node.storages[0].capacity = node.storages[0].free = 2**44

    return refresh
