"""Migrations on the pages of operators."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor
from tests.migrations.node_sync import reload


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


def test_migration_page_migrates_instance_and_lists_it(operator, running_instance, second_hypervisor, run_tasks):
    page = f"/admin/instances/{running_instance.id}/move"
    assert "No migrations yet" in operator.get("/admin/migrations").text
    assert "node-2" in operator.get(page).text
    answer = operator.post(page, data={"hypervisor_id": second_hypervisor.id})
    assert (answer.status_code, answer.headers["Location"].startswith("/admin/tasks/")) == (303, True)
    assert "Stop" in operator.get("/admin/migrations?status=active").text
    run_tasks()
    assert reload(running_instance).hypervisor_id == second_hypervisor.id
    migrations_page = operator.get("/admin/migrations").text
    for text in (running_instance.name, "node-1", "node-2", "Migrate back"):
        assert text in migrations_page
    migration_id = migrations_page.split('id="migration-')[1].split('"')[0]
    assert operator.post(f"/admin/migrations/{migration_id}/rollback").status_code == 303
    run_tasks()
    assert reload(running_instance).hypervisor.name == "node-1"
    assert operator.post(f"/admin/migrations/{migration_id}/explode").status_code == 404


def test_migration_page_shows_reason_of_disabled_target(operator, running_instance, second_hypervisor):
    second_hypervisor.locked = True
    session.commit()
    page = operator.get(f"/admin/instances/{running_instance.id}/move").text
    assert "It is locked." in page
    assert "No other hypervisor has enough free capacity." in page
    refused = operator.post(
        f"/admin/instances/{running_instance.id}/move", data={"hypervisor_id": second_hypervisor.id}
    )
    assert (refused.status_code, "It is locked." in refused.text) == (422, True)


def test_evacuation_requires_typed_name_of_hypervisor(operator, cast, running_instance, second_hypervisor):
    page = f"/admin/hypervisors/{cast.node.id}"
    assert "Migrate all instances" in operator.get(f"{page}/instances").text
    assert operator.post(f"{page}/evacuate", data={"typed": "node"}).status_code == 422
    assert not session.get(Hypervisor, cast.node.id).maintenance
    assert operator.post(f"{page}/evacuate", data={"typed": "node-1"}).status_code == 303
    assert session.get(Hypervisor, cast.node.id).maintenance
    assert reload(running_instance).migrating
