"""The account's limit of micro VMs that have a connector."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select

from panel.app import create_app
from panel.core.db import session
from panel.models import Account, HypervisorGroup, MicrovmConnector
from panel.services import microvms
from panel.services.microvms import profiles
from tests.support.isolated_app import isolated_installation
from tests.support.microvms import register_image

DOMAIN = "sandboxes.example.net"


@pytest.fixture
def set_limit(api_as, cast, change_config):
    change_config(sandbox_domain=DOMAIN)

    def put(maximum):
        answer = api_as("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json={"max_serverless_apps": maximum})
        assert answer.status_code == 200

    return put


@pytest.fixture
def get_limit(api_as):
    return lambda: api_as("owner", "GET", "/api/account/limits").json["data"]["max_serverless_apps"]


@pytest.fixture
def connect(call_api):
    """Return a function that adds a connector to a micro VM and returns the answer."""
    return lambda microvm, port=80: call_api("POST", "connectors", microvm_id=microvm["id"], port=port)


@pytest.fixture
def create_many(call_api, microvm_body):
    return lambda count: [call_api("POST", "vms", **microvm_body).json["vm"] for _ in range(count)]


def test_sixth_micro_vm_with_a_connector_is_refused(create_many, connect, get_limit, change_config, call_api):
    """MVM-10, LIM-12: micro VMs without one do not count, nor do further connectors of the same one."""
    change_config(sandbox_domain=DOMAIN)
    rows = create_many(7)
    assert get_limit() == {"value": 5, "unlimited": False, "used": 0}
    for row in rows[:5]:
        assert connect(row).status_code == 200
    assert get_limit()["used"] == 5
    refused = connect(rows[5])
    assert (refused.status_code, refused.json["reason"]) == (422, "limit_reached")
    assert "The limit is 5 micro VMs with a public address" in refused.json["errors"]["microvm_id"][0]
    assert connect(rows[0], 81).status_code == 200
    assert get_limit()["used"] == 5
    call_api("DELETE", f"vm/{rows[0]['id']}")
    assert get_limit()["used"] == 4
    assert connect(rows[5]).status_code == 200


def test_lowered_limit_stops_additions_and_zero_is_unlimited(create_many, connect, set_limit, get_limit, call_api):
    """LIM-11, LIM-15"""
    set_limit(0)
    rows = create_many(4)
    connectors = [connect(row).json["connector"] for row in rows[:3]]
    assert get_limit() == {"value": 0, "unlimited": True, "used": 3}
    set_limit(1)
    refused = connect(rows[3]).json
    assert refused["reason"] == "limit_reached"
    assert "The limit is 1 micro VM with a public address" in refused["errors"]["microvm_id"][0]
    assert connect(rows[0], 81).status_code == 200, "no further micro VM"
    assert call_api("GET", "connectors").json["total"] == 4
    for connector in connectors[1:]:
        call_api("DELETE", f"connector/{connector['id']}")
        assert connect(rows[3]).json["reason"] == "limit_reached"
    call_api("DELETE", f"vm/{rows[0]['id']}")
    assert connect(rows[3]).status_code == 200


def test_limit_of_one_account_does_not_concern_others(create_many, connect, set_limit, call_api, microvm_body):
    set_limit(1)
    (row,) = create_many(1)
    assert connect(row).status_code == 200
    foreign = call_api("POST", "vms", "outsider", **microvm_body).json["vm"]
    assert call_api("POST", "connectors", "outsider", microvm_id=foreign["id"], port=80).status_code == 200


def test_parallel_requests_do_not_exceed_the_limit(tmp_path):
    """LIM-12"""
    count, maximum = 8, 3
    with isolated_installation(tmp_path, create=create_app, sandbox_domain=DOMAIN) as app, app.app_context():
        owner = session.get(Account, app.cast.owner.id)
        owner.max_serverless_apps = maximum
        location = session.scalars(select(HypervisorGroup)).first()
        profiles.create(hypervisor_id=location.hypervisors[0].id)
        image = register_image()
        values = {"location_id": location.id, "image_id": image.id, "actor": "owner@example.com"}
        ids = [microvms.create(owner, name=f"m{number}", **values).id for number in range(count)]
        session.commit()
        start = Barrier(count)

        def connect(microvm_id):
            start.wait()
            body = {"microvm_id": microvm_id, "port": 80}
            headers = app.cast.headers("owner")
            return app.test_client().post("/api/microvm/connectors", json=body, headers=headers)

        with ThreadPoolExecutor(count) as customers:
            answers = list(customers.map(connect, ids))
        assert sorted(answer.status_code for answer in answers) == [200] * maximum + [422] * (count - maximum)
        assert session.scalar(select(func.count()).select_from(MicrovmConnector)) == maximum
