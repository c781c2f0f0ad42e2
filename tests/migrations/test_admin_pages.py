"""Moving instances on the operators' pages."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor
from tests.migrations.conftest import reload


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


def test_an_instance_is_moved_and_the_list_tells_of_it(operator, machine, second_hypervisor, run_tasks):
    page = f"/admin/instances/{machine.id}/move"
    assert "No migrations yet" in operator.get("/admin/migrations").text
    assert "node-2" in operator.get(page).text
    answer = operator.post(page, data={"hypervisor_id": second_hypervisor.id})
    assert (answer.status_code, answer.headers["Location"].startswith("/admin/tasks/")) == (303, True)
    assert "Stop" in operator.get("/admin/migrations?status=active").text
    run_tasks()
    assert reload(machine).hypervisor_id == second_hypervisor.id
    shown = operator.get("/admin/migrations").text
    for word in (machine.name, "node-1", "node-2", "Migrate back"):
        assert word in shown
    row = shown.split('id="migration-')[1].split('"')[0]
    assert operator.post(f"/admin/migrations/{row}/rollback").status_code == 303
    run_tasks()
    assert reload(machine).hypervisor.name == "node-1"
    assert operator.post(f"/admin/migrations/{row}/explode").status_code == 404


def test_what_cannot_be_chosen_says_why(operator, machine, second_hypervisor):
    second_hypervisor.locked = True
    session.commit()
    page = operator.get(f"/admin/instances/{machine.id}/move").text
    assert "It is locked." in page
    assert "No other hypervisor has enough free capacity." in page
    refused = operator.post(f"/admin/instances/{machine.id}/move", data={"hypervisor_id": second_hypervisor.id})
    assert (refused.status_code, "It is locked." in refused.text) == (422, True)


def test_a_hypervisor_is_emptied_when_its_name_was_typed(operator, cast, machine, second_hypervisor):
    page = f"/admin/hypervisors/{cast.node.id}"
    assert "Migrate all instances" in operator.get(f"{page}/instances").text
    assert operator.post(f"{page}/evacuate", data={"typed": "node"}).status_code == 422
    assert not session.get(Hypervisor, cast.node.id).maintenance
    assert operator.post(f"{page}/evacuate", data={"typed": "node-1"}).status_code == 303
    assert session.get(Hypervisor, cast.node.id).maintenance
    assert reload(machine).migrating
