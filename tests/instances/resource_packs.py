"""Resource packs, and instances that are created from them."""

import pytest

PACKS_PATH, SELF_PROVISIONING_PATH = "/api/v1/self-provisioning/packs", "/api/self-provisioning"

PACK_SIZE = {"cpu_cores": 2, "ram": 1024, "storage": 25}


@pytest.fixture
def create_pack(api_as, cast):
    def make(**fields):
        body = {"user_id": cast.owner.id, "name": "Laboratory", **PACK_SIZE, **fields}
        answer = api_as("admin", "POST", PACKS_PATH, json=body)
        assert answer.status_code == 200, answer.json
        return answer.json["data"]

    return make


@pytest.fixture
def create_instance(api_as, cast):
    def make(caller="owner", **fields):
        body = {"location_id": cast.location.id, "plan_id": cast.plan.id, **fields}
        return api_as(caller, "POST", f"{SELF_PROVISIONING_PATH}/instances", json=body)

    return make
