"""Warm pools by the operators' API and on their pages."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import MicrovmImage, MicrovmPool, MicrovmProfile
from tests.support.microvms import register_image


@pytest.fixture
def body(cast, image, profile):
    return {"hypervisor_id": cast.node.id, "image_id": image.id, "count": 3}


def test_pool_is_added_changed_and_deleted(api_as, body, cast):
    added = api_as("admin", "POST", "/api/v1/microvm/pools", json=body).json["data"]
    expected = {"hypervisor_name": "node-1", "image_label": "Sandbox", "count": 3, "ready": 0, "booting": 0}
    assert added == {**added, **expected, "error": None}
    assert api_as("admin", "GET", "/api/v1/microvm/pools").json["data"] == [added]
    assert api_as("admin", "GET", f"/api/v1/microvm/pools?hypervisor_id={cast.node.id}").json["data"] == [added]
    assert api_as("admin", "GET", f"/api/v1/microvm/pools?hypervisor_id={added['id']}").json["data"] == []
    path = f"/api/v1/microvm/pool/{added['id']}"
    assert api_as("admin", "PATCH", path, json={"count": 0}).json["data"]["count"] == 0
    assert api_as("admin", "GET", path).json["data"]["count"] == 0
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [("count", -1), ("count", 65), ("count", None), ("count", "many"), ("image_id", "none"), ("hypervisor_id", "none")],
)
def test_invalid_pool_is_a_field_error(api_as, body, field, value):
    answer = api_as("admin", "POST", "/api/v1/microvm/pools", json={**body, field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_second_pool_of_an_image_is_refused(api_as, body):
    answers = [api_as("admin", "POST", "/api/v1/microvm/pools", json=body) for _ in range(2)]
    assert (answers[0].status_code, answers[1].status_code, list(answers[1].json["errors"])) == (200, 422, ["image_id"])


def test_hypervisor_without_profile_is_refused(api_as, cast, image):
    body = {"hypervisor_id": cast.node.id, "image_id": image.id, "count": 1}
    answer = api_as("admin", "POST", "/api/v1/microvm/pools", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["hypervisor_id"])


@pytest.mark.parametrize("change", [{}, {"count": 65}, {"count": None}, {"image_id": "other", "count": 1}])
def test_invalid_change_is_refused(api_as, pool, change):
    assert api_as("admin", "PATCH", f"/api/v1/microvm/pool/{pool.id}", json=change).status_code == 422


@pytest.mark.usefixtures("pool")
def test_list_takes_constant_number_of_queries(api_as, cast, queries):
    counts = []
    api_as("admin", "GET", "/api/v1/microvm/pools")  # records the use of the token
    for number in range(2):
        for row in list(session):
            if isinstance(row, MicrovmPool | MicrovmProfile | MicrovmImage):
                session.expunge(row)
        queries.clear()
        assert len(api_as("admin", "GET", "/api/v1/microvm/pools").json["data"]) == number + 1
        counts.append(len(queries))
        body = {"hypervisor_id": cast.node.id, "image_id": register_image(f"more-{number}").id, "count": 1}
        api_as("admin", "POST", "/api/v1/microvm/pools", json=body)
    assert counts[0] == counts[1]


def test_pool_form_adds_changes_and_deletes(browser_as, profile, image, refill, node):
    browser, page = browser_as("admin"), f"/admin/microvms/hypervisors/{profile.id}"
    assert "New micro VMs boot from their image" in browser.get(page).text
    assert "Sandbox" in browser.get(f"{page}/pools/new").text
    data = {"hypervisor_id": profile.hypervisor_id, "image_id": image.id, "count": "1"}
    assert browser.post(f"{page}/pools/new", data={**data, "count": "65"}).status_code == 422
    assert browser.post(f"{page}/pools/new", data=data).status_code == 303
    pool = session.query(MicrovmPool).one()
    assert "0 of 1" in browser.get(page).text
    refill()
    assert "1 of 1" in browser.get(page).text
    edit = f"/admin/microvms/pools/{pool.id}"
    form = browser.get(edit).text
    assert ('value="1"' in form, '<h1 class="page-title">Warm pool: Sandbox' in form) == (True, True)
    assert browser.post(edit, data={"count": "2"}).status_code == 303
    node.fault("start", "full", 1)
    refill()
    part = browser.get(page, headers={"HX-Request": "true", "HX-Request-Type": "partial"}).text
    assert ("1 of 2" in part, "Next attempt" in part, "Maximum micro VMs" in part) == (True, True, False)
    assert f"/admin/tasks?kind=microvm_pool_boot&amp;node={profile.hypervisor_id}" in part
    pool.next_boot_at = clock.now()
    session.commit()
    part = browser.get(page).text
    assert "Next attempt: at the next check." in part
    pool.next_boot_at = clock.now() + timedelta(minutes=10)
    session.commit()
    assert "in 9 min" in browser.get(page).text
    profile.enabled = False
    session.commit()
    part = browser.get(page).text
    assert ("No further attempt" in part, "Next attempt" in part) == (True, False)
    assert browser.post(f"{edit}/delete").status_code == 303
    assert session.query(MicrovmPool).count() == 0
