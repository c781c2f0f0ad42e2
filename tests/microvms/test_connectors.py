"""Connectors of micro VMs by the API: public addresses."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import MicrovmConnector
from panel.services import microvms
from tests.support.team import add_member  # noqa: F401  (fixture)

DOMAIN = "sandboxes.example.net"
UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def sandbox_domain(change_config):
    change_config(sandbox_domain=DOMAIN)


@pytest.fixture
def add_connector(call_api):
    """Return a function that adds a connector to a micro VM and returns the answer."""

    def add(microvm, caller="owner", port=8080, **values):
        return call_api("POST", "connectors", caller, microvm_id=microvm.id, port=port, **values)

    return add


def test_connector_is_added_listed_and_removed(call_api, microvm, add_connector):
    answer = add_connector(microvm, label="Shop-Preview")
    assert answer.status_code == 200, answer.json
    connector = answer.json["connector"]
    assert (connector["label"], connector["port"], connector["microvm_id"]) == ("shop-preview", 8080, microvm.id)
    assert connector["url"] == f"https://shop-preview.{DOMAIN}"
    assert call_api("GET", "connectors").json["data"] == [connector]
    assert call_api("GET", f"connectors?microvm_id={UNKNOWN_ID}").json["total"] == 0
    assert call_api("GET", f"connector/{connector['id']}").json["connector"] == connector
    assert microvms.find_connector("shop-preview") == (microvm.sandbox_id, 8080)
    assert call_api("DELETE", f"connector/{connector['id']}").status_code == 200
    assert call_api("DELETE", f"connector/{connector['id']}").status_code == 404
    assert call_api("GET", "connectors").json["total"] == 0
    assert microvms.find_connector("shop-preview") is None


def test_label_is_made_up(microvm, add_connector, change_config, call_api):
    labels = [add_connector(microvm, port=port).json["connector"]["label"] for port in (80, 81)]
    assert len(set(labels)) == 2
    assert all(len(label) == 12 and label.isalnum() for label in labels)
    change_config(sandbox_domain=f"{DOMAIN}:8443")
    assert call_api("GET", "connectors").json["data"][0]["url"] == f"https://{labels[1]}.{DOMAIN}:8443"


@pytest.mark.parametrize(
    "label",
    [
        *(
            "api",
            "sandbox",
            "WWW",
            "80-abc",
            "8080-",
            "-a",
            "a-",
            "a--b",
            "xn--bcher-kva",
            "a.b",
            "a_b",
            "ä",
            "",
            "a\n",
        ),
        *("a b", "x" * 64, 7),
    ],
)
def test_label_that_cannot_be_is_refused(microvm, add_connector, label):
    answer = add_connector(microvm, label=label)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["label"])


@pytest.mark.parametrize("label", ["a", "7", "2024", "x" * 63, "a-1-b"])
def test_label_that_can_be_is_accepted(microvm, add_connector, label):
    assert add_connector(microvm, label=label).json["connector"]["label"] == label


@pytest.mark.parametrize("port", [0, -1, 65536, "80", 1.5, None, 49983])
def test_port_that_cannot_be_is_refused(microvm, add_connector, port):
    answer = add_connector(microvm, port=port)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["port"])


def test_label_is_unique_in_the_installation(microvm, add_connector, call_api, microvm_body, run_tasks):
    add_connector(microvm, label="shop")
    answer = add_connector(microvm, label="shop", port=81)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["label"])
    foreign = call_api("POST", "vms", "outsider", **microvm_body).json["vm"]
    body = {"microvm_id": foreign["id"], "port": 80, "label": "shop"}
    assert list(call_api("POST", "connectors", "outsider", **body).json["errors"]) == ["label"]


def test_installation_without_domain_has_no_connectors(microvm, add_connector, change_config, call_api):
    existing = add_connector(microvm).json["connector"]
    change_config(sandbox_domain="")
    answer = add_connector(microvm, port=81)
    assert (answer.status_code, answer.json["reason"]) == (422, "no_sandbox_domain")
    assert "domain" in answer.json["message"]
    assert call_api("GET", "connectors").json["data"] == [{**existing, "url": None}]


def test_foreign_micro_vm_and_connector_are_not_found(microvm, add_connector, call_api):
    connector = add_connector(microvm).json["connector"]
    answer = add_connector(microvm, "outsider")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["microvm_id"])
    assert call_api("GET", "connectors", "outsider").json["total"] == 0
    for method in ("GET", "DELETE"):
        assert call_api(method, f"connector/{connector['id']}", "outsider").status_code == 404


def test_member_with_chosen_resources_reaches_connectors_of_own_micro_vms(
    microvm, add_connector, call_api, add_member, microvm_body
):
    """MVM-11"""
    of_owner = add_connector(microvm).json["connector"]
    for caller, reach in (("chooser", "chosen"), ("sorter", "projects")):
        add_member(caller, ["microvm.view", "microvm.manage"], reach)
        assert call_api("GET", "connectors", caller).json["total"] == 0
        assert call_api("DELETE", f"connector/{of_owner['id']}", caller).status_code == 404
        assert list(add_connector(microvm, caller).json["errors"]) == ["microvm_id"]
        own = call_api("POST", "vms", caller, **microvm_body).json["vm"]["id"]
        added = call_api("POST", "connectors", caller, microvm_id=own, port=80).json["connector"]
        assert call_api("GET", "connectors", caller).json["data"] == [added]


def test_viewer_reads_connectors_only(microvm, add_connector, call_api):
    connector = add_connector(microvm).json["connector"]
    assert call_api("GET", "connectors", "viewer").json["total"] == 1
    assert add_connector(microvm, "viewer").status_code == 403
    assert call_api("DELETE", f"connector/{connector['id']}", "viewer").status_code == 403


def test_destroying_a_micro_vm_removes_its_connectors(microvm, add_connector, call_api, run_tasks):
    add_connector(microvm, label="shop")
    call_api("DELETE", f"vm/{microvm.id}")
    assert call_api("GET", "connectors").json["total"] == 0
    answer = add_connector(microvm, label="shop")
    assert (answer.status_code, answer.json["reason"]) == (409, "microvm_destroying")
    run_tasks()
    assert list(add_connector(microvm).json["errors"]) == ["microvm_id"]
    assert session.scalars(select(MicrovmConnector)).all() == []


def test_time_out_removes_connectors(microvm, add_connector, run_tasks):
    add_connector(microvm, label="shop")
    microvms.set_timeout(microvm, 1)
    microvm.expires_at = microvm.started_at
    session.commit()
    microvms.expiry.end_expired()
    assert session.scalars(select(MicrovmConnector)).all() == []


@pytest.mark.parametrize("action", ["pause", "stop"])
def test_connector_of_paused_or_stopped_micro_vm_stays(microvm, add_connector, call_api, run_tasks, action):
    add_connector(microvm, label="shop")
    call_api("POST", f"vm/{microvm.id}/{action}")
    run_tasks()
    assert call_api("GET", "connectors").json["total"] == 1
    assert add_connector(microvm, port=81).status_code == 200


def test_eleventh_connector_of_a_micro_vm_is_refused(microvm, add_connector):
    for port in range(1, 11):
        assert add_connector(microvm, port=port).status_code == 200
    answer = add_connector(microvm, port=11)
    assert (answer.status_code, answer.json["reason"], list(answer.json["errors"])) == (
        422,
        "connector_limit",
        ["microvm_id"],
    )


def test_list_takes_constant_number_of_queries(microvm, add_connector, call_api, queries):
    counts = []
    for port in (80, 81):
        add_connector(microvm, port=port)
        queries.clear()
        call_api("GET", "connectors")
        counts.append(len(queries))
    assert counts[0] == counts[1]
