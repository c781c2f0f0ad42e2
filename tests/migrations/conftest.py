"""A location with two hypervisors, and an instance on the first."""

from dataclasses import replace

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Migration
from panel.services import hypervisors, instances, migrations
from tests.migrations.node_sync import reload, sync_nodes
from tests.support.simulated_node import clear_node
from worker import nodes


def connect_node(app, row):
    return nodes.connect(nodes.NodeSpec(row.id, row.name, row.driver, row.uri), app.extensions["config"].data_dir)


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


@pytest.fixture
def second_hypervisor(rolled_back_app, cast, run_tasks):
    """The row of the second hypervisor."""
    row = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://?", storage_path="/srv/b"
    )
    session.commit()
    run_tasks()
    return session.get(Hypervisor, row.id)


@pytest.fixture
def second_node(rolled_back_app, second_hypervisor, run_tasks):
    """The node of the second hypervisor."""
    node = connect_node(rolled_back_app, second_hypervisor)
    node.options = replace(node.options, deadline=0.01)
    yield node
    clear_node(node)
    node.close()


@pytest.fixture
def running_instance(cast, node, second_node, run_tasks):
    """A deployed instance that runs on the first hypervisor."""
    instance = cast.instance()
    instance.hypervisor_id = cast.node.id
    instance.disks[0].storage_id = session.get(Hypervisor, cast.node.id).storages[0].id
    instances.deploy(instance, image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    run_tasks()
    assert reload(instance).state == "running"
    return reload(instance)


@pytest.fixture
def start_migration(running_instance, second_hypervisor):
    """Return a function that starts a migration of the instance to the second hypervisor."""

    def start(**options):
        row = migrations.start(reload(running_instance), target=second_hypervisor, actor="admin", **options)
        session.commit()
        return row

    return start


__all__ = ["Instance", "Migration", "reload", "sync_nodes"]
