"""A location with two hypervisors, and a machine on the first."""

from dataclasses import replace

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Migration
from panel.services import hypervisors, instances, migrations
from tests.conftest import clear_node
from worker import nodes
from worker.sync import node_sync as looks


def connect_node(world, row):
    return nodes.connect(nodes.NodeSpec(row.id, row.name, row.driver, row.uri), world.extensions["config"].data_dir)


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


@pytest.fixture
def second_hypervisor(rolled_back_app, cast, run_tasks):
    """The other hypervisor's row."""
    found = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://?", storage_path="/srv/b"
    )
    session.commit()
    run_tasks()
    return session.get(Hypervisor, found.id)


@pytest.fixture
def second_node(rolled_back_app, second_hypervisor, run_tasks):
    """The other node itself."""
    found = connect_node(rolled_back_app, second_hypervisor)
    found.options = replace(found.options, deadline=0.01)
    yield found
    clear_node(found)
    found.close()


@pytest.fixture
def machine(cast, node, second_node, run_tasks):
    """A deployed instance that runs on the first."""
    made = cast.instance()
    made.hypervisor_id = cast.node.id
    made.disks[0].storage_id = session.get(Hypervisor, cast.node.id).storages[0].id
    instances.deploy(made, image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    run_tasks()
    assert reload(made).state == "running"
    return reload(made)


@pytest.fixture
def start_migration(machine, second_hypervisor):
    def move(**options):
        row = migrations.start(reload(machine), target=second_hypervisor, actor="admin", **options)
        session.commit()
        return row

    return move


def reload(row):
    return session.get(type(row), row.id, populate_existing=True)


def sync_nodes(*rows):
    """Workers look at the hypervisors, as they do every few seconds."""
    for row in rows:
        looks.reconcile(row.id)


__all__ = ["Instance", "Migration", "reload", "sync_nodes"]
