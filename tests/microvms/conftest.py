"""A node that takes micro VMs, an image, and micro VMs in every state."""

import pytest

from panel.core.db import session
from panel.models import Microvm
from panel.services import microvms, settings
from panel.services.microvms import pools, profiles
from tests.support.microvms import register_image
from tests.support.sandbox_guests import serve_healthy_guest
from tests.support.worker_faults import fault_at, kill_worker_at, manual_reaper  # noqa: F401  (fixtures)
from worker.nodes.simulated import SimulatedNode
from worker.tasks import microvm_pools


@pytest.fixture(autouse=True)
def billing_enabled(rolled_back_app):
    settings.update({"billing_enabled": True})


@pytest.fixture(autouse=True)
def healthy_guests(monkeypatch):
    """The daemons in guests of the simulated node answer, and guests notice at once that a channel has ended."""
    monkeypatch.setattr(SimulatedNode, "serve_channel", staticmethod(serve_healthy_guest))
    monkeypatch.setattr(microvm_pools, "SETTLE_SECONDS", 0)


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


@pytest.fixture
def image(rolled_back_app):
    return register_image()


@pytest.fixture
def profile(cast):
    profile = profiles.create(hypervisor_id=cast.node.id)
    session.commit()
    return profile


@pytest.fixture
def microvm_body(cast, image, profile):
    return {"location_id": cast.location.id, "image_id": image.id, "name": "worker"}


@pytest.fixture
def call_api(api_as):
    """Return a function that calls the routes below /api/microvm."""

    def call(method, path, caller="owner", **body):
        return api_as(caller, method, f"/api/microvm/{path}", **({"json": body} if body else {}))

    return call


@pytest.fixture
def create_microvm(call_api, microvm_body, run_tasks):
    """Return a function that creates a micro VM of the owner and waits until it runs. It returns the row."""

    def create(**values):
        answer = call_api("POST", "vms", **{**microvm_body, **values})
        assert answer.status_code == 200, answer.json
        run_tasks()
        return session.get(Microvm, answer.json["vm"]["id"])

    return create


@pytest.fixture
def microvm(create_microvm):
    """A running micro VM of the owner."""
    microvm = create_microvm()
    assert microvm.state == "running"
    return microvm


@pytest.fixture
def reload():
    """Return a function that reads a micro VM again from the database."""
    return lambda microvm: session.get(Microvm, microvm.id, populate_existing=True)


@pytest.fixture
def request_action(cast):
    """Return a function that requests an action on a micro VM and returns the task."""

    def request(microvm, action, **options):
        task = getattr(microvms, action)(microvm, actor="owner@example.com", **options)
        session.commit()
        return task

    return request


@pytest.fixture
def names_on_node(node):
    """Return a function that lists the machines on the node, and the disks of micro VMs."""

    def list_names():
        disks = {disk.name for disk in node.disks("default")}
        return {machine.id for machine in node.machines()}, {name for name in disks if name.startswith("m-")}

    return list_names


@pytest.fixture
def pool(cast, image, profile):
    """A pool of two that is empty yet."""
    pool = pools.create(hypervisor_id=cast.node.id, image_id=image.id, count=2)
    session.commit()
    return pool


@pytest.fixture
def refill(run_tasks):
    """Return a function that lets the periodic job and then the workers run, once each."""

    def run():
        microvm_pools.refill()
        run_tasks()
        session.expire_all()

    return run


@pytest.fixture
def filled_pool(pool, refill):
    """A pool with its two members."""
    refill()
    refill()
    return pool
