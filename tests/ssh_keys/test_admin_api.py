"""SSH keys of users, in operators' hands."""

import pytest

from panel.core.db import new_id, session
from panel.models import SshKey

KEYS = "/api/v1/ssh-keys"


@pytest.fixture
def key(api_as, cast):
    body = {"user_id": cast.owner.id, "name": "laptop", "algorithm": "ed25519"}
    answer = api_as("admin", "POST", "/api/v1/ssh-key/generate", json=body)
    assert answer.json["data"]["private_key"].startswith("-----BEGIN OPENSSH PRIVATE KEY")
    return answer.json["data"]["ssh_key"]


def test_a_key_is_made_listed_and_removed(api_as, cast, key):
    assert (key["user_id"], key["name"]) == (cast.owner.id, "laptop")
    for path in (KEYS, f"{KEYS}?search=lap", f"{KEYS}/user/{cast.owner.id}"):
        assert [each["id"] for each in api_as("admin", "GET", path).json["data"]] == [key["id"]], path
    for path in (f"{KEYS}?search=zzz", f"{KEYS}/user/{cast.outsider.id}"):
        assert api_as("admin", "GET", path).json["data"] == [], path
    assert api_as("admin", "GET", f"/api/v1/ssh-key/{key['id']}").json["data"]["fingerprint"] == key["fingerprint"]
    assert api_as("owner", "GET", "/api/ssh-keys").json["data"][0]["id"] == key["id"]
    assert api_as("admin", "DELETE", f"/api/v1/ssh-key/{key['id']}").status_code == 200
    assert session.query(SshKey).count() == 0
    assert api_as("admin", "DELETE", f"/api/v1/ssh-key/{key['id']}").status_code == 404


def test_a_key_is_stored_for_somebody(api_as, cast, key):
    body = {"user_id": cast.outsider.id, "name": "laptop", "public_key": key["public_key"]}
    assert api_as("admin", "POST", KEYS, json=body).json["data"]["user_id"] == cast.outsider.id
    assert api_as("admin", "POST", KEYS, json=body).json["errors"].keys() == {"name"}
    assert api_as("admin", "POST", KEYS, json={**body, "user_id": new_id()}).json["errors"].keys() == {"user_id"}
    assert api_as("admin", "POST", KEYS, json={**body, "name": "other", "public_key": "ssh-rsa no"}).json[
        "errors"
    ].keys() == {"public_key"}
    assert api_as("admin", "GET", f"{KEYS}/user/{new_id()}").status_code == 404


def test_the_list_costs_the_same_for_many(api_as, cast, key, queries):
    api_as("admin", "GET", KEYS)
    queries.clear()
    api_as("admin", "GET", KEYS)
    few = len(queries)
    body = {"user_id": cast.outsider.id, "name": "laptop", "public_key": key["public_key"]}
    api_as("admin", "POST", KEYS, json=body)
    queries.clear()
    assert len(api_as("admin", "GET", KEYS).json["data"]) == 2
    assert len(queries) == few
