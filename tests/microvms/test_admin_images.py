"""Operators build images of the platform, and delete anybody's."""

import pytest

from panel.core.db import session
from panel.models import MicrovmImage
from panel.services import hypervisor_removal
from tests.support.microvms import register_image
from tests.support.simulated_sandbox import simulated_sandbox  # noqa: F401  (fixture)


@pytest.fixture
def call_admin(api_as):
    """Return a function that calls the operators' routes of micro VM images."""

    def call(method, path, **body):
        return api_as("admin", method, f"/api/v1/microvm/{path}", **({"json": body} if body else {}))

    return call


@pytest.fixture
def image_body(image, profile, simulated_sandbox):
    return {"name": "tools", "image_id": image.id, "commands": ["true"]}


def test_platform_image_is_built_and_used_by_customers(call_admin, call_api, image_body, run_tasks, create_microvm):
    body = {**image_body, "aliases": ["code-interpreter-v1"], "price": 3.5}
    answer = call_admin("POST", "images", **body)
    assert answer.status_code == 202, answer.json
    image_id = answer.json["data"]["id"]
    run_tasks()
    row = call_admin("GET", f"image/{image_id}").json["data"]
    assert (row["status"], row["price"], row["account_id"], row["is_public"]) == ("available", 3.5, None, True)
    assert row["build"]["commands"] == ["true"]
    assert create_microvm(image_id=image_id).state == "running"
    assert call_api("GET", f"image/{image_id}").json["build"] is None


def test_hidden_image_cannot_be_used_by_customers(call_admin, call_api, image, microvm_body):
    assert call_admin("PATCH", f"image/{image.id}", is_public=False).status_code == 200
    assert call_api("GET", "images").json["total"] == 0
    assert call_api("GET", f"image/{image.id}").status_code == 404
    assert call_api("POST", "vms", **microvm_body).status_code == 422
    assert call_admin("GET", "images").json["meta"]["total"] == 1


def test_label_aliases_sizes_and_price_are_changed(call_admin, image):
    changes = {"label": "Base", "aliases": ["base", "other"], "cpu_cores": 2, "memory_mb": 1024, "price": 1.25}
    answer = call_admin("PATCH", f"image/{image.id}", **changes)
    assert {name: answer.json["data"][name] for name in changes} == changes


def test_alias_of_another_image_is_refused(call_admin, image, image_body):
    other = register_image("other", aliases=[])
    assert list(call_admin("PATCH", f"image/{other.id}", aliases=["base"]).json["errors"]) == ["aliases"]
    assert list(call_admin("POST", "images", **image_body, aliases=["sandbox"]).json["errors"]) == ["aliases"]


def test_customers_image_is_listed_and_deleted(call_admin, call_api, image_body, run_tasks, cast):
    image_id = call_api("POST", "images", **image_body).json["image"]["id"]
    run_tasks()
    assert [row["id"] for row in call_admin("GET", "images?owner=customers").json["data"]] == [image_id]
    assert image_id not in str(call_admin("GET", "images?owner=platform").json)
    row = call_admin("GET", f"image/{image_id}").json["data"]
    assert (row["owner_email"], row["account_id"]) == (cast.owner.email, cast.owner.id)
    assert row["is_public"] is False
    for name, value in (("aliases", ["x"]), ("is_public", True)):
        assert list(call_admin("PATCH", f"image/{image_id}", **{name: value}).json["errors"]) == [name]
    assert call_admin("POST", f"image/{image_id}/build").status_code == 404
    assert call_admin("DELETE", f"image/{image_id}").status_code == 200
    assert session.get(MicrovmImage, image_id) is None


def test_customers_image_is_no_source_of_platform(call_admin, call_api, image_body, run_tasks):
    image_id = call_api("POST", "images", **image_body).json["image"]["id"]
    run_tasks()
    answer = call_admin("POST", "images", **image_body | {"name": "more", "image_id": image_id})
    assert list(answer.json["errors"]) == ["image_id"]


def test_build_fails_with_its_hypervisor(api_as, call_api, image_body, cast):
    """A hypervisor that is removed by force takes the builds on it with it."""
    image_id = call_api("POST", "images", **image_body).json["image"]["id"]
    answer = api_as("admin", "DELETE", f"/api/v1/hypervisor/{cast.node.id}")
    assert (answer.status_code, "Micro VMs are on this hypervisor" in answer.json["message"]) == (409, True)
    cast.node.status = "down"
    session.commit()
    hypervisor_removal.force_remove(cast.node, name=cast.node.name, actor="admin")
    image = session.get(MicrovmImage, image_id)
    assert (image.status, str(image.build.error)) == ("failed", "The hypervisor was removed by force.")
