"""SSH keys of users in the operators' API."""

import pytest

from panel.core.db import generate_id, session
from panel.models import SshKey

SSH_KEYS_PATH = "/api/v1/ssh-keys"


@pytest.fixture
def generated_key(api_as, cast):
    body = {"user_id": cast.owner.id, "name": "laptop", "algorithm": "ed25519"}
    answer = api_as("admin", "POST", "/api/v1/ssh-key/generate", json=body)
    assert answer.json["data"]["private_key"].startswith("-----BEGIN OPENSSH PRIVATE KEY")
    return answer.json["data"]["ssh_key"]


def test_ssh_key_generate_list_and_delete(api_as, cast, generated_key):
    assert (generated_key["user_id"], generated_key["name"]) == (cast.owner.id, "laptop")
    for path in (SSH_KEYS_PATH, f"{SSH_KEYS_PATH}?search=lap", f"{SSH_KEYS_PATH}/user/{cast.owner.id}"):
        assert [key["id"] for key in api_as("admin", "GET", path).json["data"]] == [generated_key["id"]], path
    for path in (f"{SSH_KEYS_PATH}?search=zzz", f"{SSH_KEYS_PATH}/user/{cast.outsider.id}"):
        assert api_as("admin", "GET", path).json["data"] == [], path
    assert (
        api_as("admin", "GET", f"/api/v1/ssh-key/{generated_key['id']}").json["data"]["fingerprint"]
        == generated_key["fingerprint"]
    )
    assert api_as("owner", "GET", "/api/ssh-keys").json["data"][0]["id"] == generated_key["id"]
    assert api_as("admin", "DELETE", f"/api/v1/ssh-key/{generated_key['id']}").status_code == 200
    assert session.query(SshKey).count() == 0
    assert api_as("admin", "DELETE", f"/api/v1/ssh-key/{generated_key['id']}").status_code == 404


def test_ssh_key_is_stored_for_given_user(api_as, cast, generated_key):
    body = {"user_id": cast.outsider.id, "name": "laptop", "public_key": generated_key["public_key"]}
    assert api_as("admin", "POST", SSH_KEYS_PATH, json=body).json["data"]["user_id"] == cast.outsider.id
    assert api_as("admin", "POST", SSH_KEYS_PATH, json=body).json["errors"].keys() == {"name"}
    assert api_as("admin", "POST", SSH_KEYS_PATH, json={**body, "user_id": generate_id()}).json["errors"].keys() == {
        "user_id"
    }
    assert api_as("admin", "POST", SSH_KEYS_PATH, json={**body, "name": "other", "public_key": "ssh-rsa no"}).json[
        "errors"
    ].keys() == {"public_key"}
    assert api_as("admin", "GET", f"{SSH_KEYS_PATH}/user/{generate_id()}").status_code == 404


def test_ssh_key_list_query_count_is_constant(api_as, cast, generated_key, queries):
    api_as("admin", "GET", SSH_KEYS_PATH)
    queries.clear()
    api_as("admin", "GET", SSH_KEYS_PATH)
    few = len(queries)
    body = {"user_id": cast.outsider.id, "name": "laptop", "public_key": generated_key["public_key"]}
    api_as("admin", "POST", SSH_KEYS_PATH, json=body)
    queries.clear()
    assert len(api_as("admin", "GET", SSH_KEYS_PATH).json["data"]) == 2
    assert len(queries) == few
