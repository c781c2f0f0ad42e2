"""Creating sandboxes."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm, MicrovmApiKey
from panel.services import hypervisors, settings
from panel.services.microvms import profiles
from tests.support.microvms import register_image


def get_row(sandbox):
    return session.scalars(select(Microvm).where(Microvm.sandbox_id == sandbox["sandboxID"])).one()


def count_rows():
    return len(session.scalars(select(Microvm)).all())


def test_created_sandbox_has_what_sdks_read(call, image, profile):
    """SBX-03: as SDK 2.63 sends it."""
    answer = call("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {}, "envVars": {}})
    assert answer.status_code == 201
    body = answer.json
    assert re.fullmatch("[a-z0-9]+", body["sandboxID"])
    assert "-" not in body["clientID"]
    assert (body["templateID"], body["alias"], body["envdVersion"]) == (image.id, "base", "0.5.7")
    assert len(body["envdAccessToken"]) >= 32
    row = get_row(body)
    key = session.scalars(select(MicrovmApiKey).where(MicrovmApiKey.name == "owner")).one()
    assert (row.origin, row.api_key_id, row.account_id) == ("sandbox", key.id, key.account_id)
    assert (row.allow_internet_access, row.on_timeout) == (True, "kill")


def test_answer_always_names_a_domain(call, create_sandbox, change_config):
    """SBX-08, SBX-09"""
    assert create_sandbox()["domain"] == "not-configured.invalid"
    change_config(sandbox_domain="sbx.example.net:8443")
    assert create_sandbox()["domain"] == "sbx.example.net:8443"


@pytest.mark.parametrize(("path", "seconds"), [("/v2/sandboxes", 300), ("/sandboxes", 15)])
def test_timeout_differs_by_generation(call, image, profile, path, seconds):
    row = get_row(call("POST", path, {"templateID": "base", "secure": True}).json)
    assert abs(row.expires_at - clock.now() - timedelta(seconds=seconds)) < timedelta(seconds=10)


def test_all_fields_are_stored(create_sandbox, profile):
    sent = {
        "timeout": 120,
        "metadata": {"owner": "a b&c=d/é", 'q"uo.te': "1"},
        "envVars": {"FOO": "bar\nbaz"},
        "autoPause": True,
        "allow_internet_access": False,
        "network": {"allowOut": ["10.1.2.3/8"], "denyOut": ["0.0.0.0/0", "2001:db8::1"], "maskRequestHost": "x"},
        "iam": {"tokens": {}},
        "volumeMounts": [],
        "mcp": None,
    }
    profiles.update(profile, allows_internet_access=True)
    session.commit()
    row = get_row(create_sandbox(**sent))
    assert (row.meta, row.envs, row.on_timeout) == (sent["metadata"], sent["envVars"], "pause")
    assert (row.allow_out, row.deny_out) == (["10.0.0.0/8"], ["0.0.0.0/0", "2001:db8::1/128"])
    assert (row.timeout_seconds, row.allow_internet_access) == (120, False)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"templateID": ""},
        {"templateID": 7},
        {"templateID": "base", "timeout": 0},
        {"templateID": "base", "timeout": -1},
        {"templateID": "base", "timeout": 10**9},
        {"templateID": "base", "timeout": "60"},
        {"templateID": "base", "timeout": True},
        {"templateID": "base", "metadata": {"a": 1}},
        {"templateID": "base", "metadata": []},
        {"templateID": "base", "metadata": {"a": "\0"}},
        {"templateID": "base", "metadata": {str(number): "" for number in range(101)}},
        {"templateID": "base", "envVars": {"A": "x" * 5000}},
        {"templateID": "base", "autoPauseMemory": False},
        {"templateID": "base", "network": {"allowOut": ["example.com"]}},
        {"templateID": "base", "network": {"allowPublicTraffic": False}},
        {"templateID": "base", "network": {"rules": {"a": 1}}},
        {"templateID": "base", "volumeMounts": [{"name": "v", "path": "/data"}]},
        {"templateID": "base", "metadata": {"location_id": "unknown"}},
    ],
)
def test_invalid_body_is_refused(call, image, profile, body):
    answer = call("POST", "/v2/sandboxes", body)
    assert (answer.status_code, answer.json["code"]) == (400, 400), answer.json
    assert count_rows() == 0


def test_image_is_chosen_by_id_name_or_alias(call, image, profile):
    for template in (image.id, image.name, "base"):
        assert call("POST", "/v2/sandboxes", {"templateID": template}).json["templateID"] == image.id
    answer = call("POST", "/v2/sandboxes", {"templateID": "code-interpreter-v1"})
    assert (answer.status_code, answer.json["message"]) == (404, 'Template "code-interpreter-v1" not found')


def test_image_of_another_account_is_not_found(call, cast, profile):
    register_image("private", aliases=[], account_id=cast.outsider.id)
    assert call("POST", "/v2/sandboxes", {"templateID": "private"}).status_code == 404
    assert call("GET", "/templates").json == []


@pytest.fixture
def second_location(cast, image, profile):
    """A location, by name before the cast's, whose node takes micro VMs too."""
    location = hypervisors.create_group(name="alpha", display_name="Alpha", country="DE")
    node = hypervisors.create(
        location, name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/disks", max_tasks=8
    )
    profiles.create(hypervisor_id=node.id)
    session.commit()
    return location


def test_location_id_chooses_the_location(call, api_as, cast, second_location):
    """SBX-05, SBX-07: ids of the catalog are accepted."""
    settings.update({"billing_enabled": True})  # the catalog is offered
    locations = api_as("owner", "GET", "/api/microvm/catalog").json["locations"]
    assert cast.location.id in [location["id"] for location in locations]
    body = {"templateID": "base", "metadata": {"location_id": cast.location.id, "a": "b"}}
    row = get_row(call("POST", "/v2/sandboxes", body).json)
    assert (row.group_id, row.meta) == (cast.location.id, body["metadata"])


def test_first_available_location_is_the_default(call, cast, second_location, image):
    """SBX-06: the one without room is passed over."""
    assert get_row(call("POST", "/v2/sandboxes", {"templateID": "base"}).json).group_id == cast.location.id


def test_refusal_names_reason_of_missing_location(call, cast, image):
    def refuse():
        answer = call("POST", "/v2/sandboxes", {"templateID": "base"})
        assert (answer.status_code, answer.json["error_code"]) == (422, "no_microvm_node")
        return answer.json["message"]

    assert refuse() == "No hypervisor takes micro VMs at the moment."
    profile = profiles.create(hypervisor_id=cast.node.id, enabled=False)
    session.commit()
    assert refuse() == "No hypervisor takes micro VMs at the moment."
    profile.enabled, profile.max_memory_mb = True, 1
    session.commit()
    assert refuse() == "No location has room at the moment."
    cast.location.microvm_enabled = False
    session.commit()
    assert refuse() == "No location is open to micro VMs."


def test_chosen_location_without_node_is_refused(call, cast, image):
    answer = call("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"location_id": cast.location.id}})
    assert (answer.status_code, answer.json["error_code"]) == (422, "no_microvm_node")


def test_locked_location_is_refused(call, cast, image, profile):
    cast.location.microvm_enabled = False
    session.commit()
    answer = call("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"location_id": cast.location.id}})
    assert answer.status_code == 400


def test_repeated_request_creates_one_sandbox(call, image, profile):
    headers = {"Idempotency-Key": "order-1"}
    first = call("POST", "/v2/sandboxes", {"templateID": "base"}, headers=headers)
    again = call("POST", "/v2/sandboxes", {"templateID": "base"}, headers=headers)
    assert (again.status_code, again.json) == (201, first.json)
    assert count_rows() == 1
    other = call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 9}, headers=headers)
    assert (other.status_code, other.json["code"]) == (422, 422)
