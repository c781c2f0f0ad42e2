"""A location with two hypervisors, and a machine on the first."""

from dataclasses import replace

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Migration
from panel.services import hypervisors, instances, migrations
from tests.conftest import tidy
from worker import nodes
from worker.sync import node_sync as looks


def simulated(world, row):
    return nodes.connect(nodes.NodeSpec(row.id, row.name, row.driver, row.uri), world.extensions["config"].data_dir)


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


@pytest.fixture
def second(world, cast, work):
    """The other hypervisor's row."""
    found = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://?", storage_path="/srv/b"
    )
    session.commit()
    work()
    return session.get(Hypervisor, found.id)


@pytest.fixture
def other(world, second, work):
    """The other node itself."""
    found = simulated(world, second)
    found.options = replace(found.options, deadline=0.01)
    yield found
    tidy(found)
    found.close()


@pytest.fixture
def machine(cast, node, other, work):
    """A deployed instance that runs on the first."""
    made = cast.instance()
    made.hypervisor_id = cast.node.id
    made.disks[0].storage_id = session.get(Hypervisor, cast.node.id).storages[0].id
    instances.deploy(made, image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    work()
    assert again(made).state == "running"
    return again(made)


@pytest.fixture
def move(machine, second):
    def move(**options):
        row = migrations.start(again(machine), target=second, actor="admin", **options)
        session.commit()
        return row

    return move


def again(row):
    return session.get(type(row), row.id, populate_existing=True)


def look(*rows):
    """Workers look at the hypervisors, as they do every few seconds."""
    for row in rows:
        looks.refresh(row.id)


__all__ = ["Instance", "Migration", "again", "look"]
