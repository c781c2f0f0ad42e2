"""Parallel creates: nothing is allocated twice, and a refused create leaves no rows."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from panel.app import create_app
from panel.core.db import session
from panel.models import Address, Disk, Event, Hypervisor, Instance, Interface, Storage, Subnet
from panel.services import hypervisors, instances, subnets
from tests.support.isolated_app import isolated_installation
from worker.sync import node_sync as nodes

NODE_VALUES = {"driver": "simulated", "uri": "simulated://", "storage_path": "/srv/disks"}


@pytest.fixture
def site(tmp_path):
    with isolated_installation(tmp_path, create=create_app) as app, app.app_context():
        yield app


@pytest.fixture
def order_in_parallel(site):
    """Return a function that sends that many create requests in parallel and returns the answers."""

    def order(start):
        start.wait()
        body = {"location_id": site.cast.location.id, "plan_id": site.cast.plan.id}
        return site.test_client().post("/api/cloud-service/instances", json=body, headers=site.cast.headers("owner"))

    def order_all(count):
        start = Barrier(count)
        with ThreadPoolExecutor(count) as customers:
            answers = list(customers.map(order, [start] * count))
        session.rollback()
        session.expire_all()
        return answers

    return order_all


def count_rows(model):
    return session.scalar(select(func.count()).select_from(model))


@pytest.mark.parametrize("count", [2, 20])
def test_parallel_creates_get_unique_addresses(site, order_in_parallel, count):
    answers = order_in_parallel(count)
    assert [answer.status_code for answer in answers] == [200] * count
    rows = session.execute(select(Address.ip, Address.interface_id).where(Address.interface_id.is_not(None))).all()
    assert len({ip for ip, _ in rows}) == 2 * count  # one IPv4 and one IPv6 each
    assert len({interface for _, interface in rows}) == count


def test_parallel_creates_without_free_addresses_leave_no_rows(site, order_in_parallel):
    pool = session.scalar(select(Subnet).where(Subnet.family == 4))
    for address in session.scalars(subnets.select_free(pool)).all()[3:]:
        address.reserved = True
    session.commit()
    answers = order_in_parallel(8)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [422] * 5
    assert {answer.json.get("reason") for answer in answers} == {None, "ipv4_not_available"}
    assert (count_rows(Instance), count_rows(Interface), count_rows(Disk)) == (3, 3, 3)
    assert session.scalar(select(func.count()).where(Event.kind == "instance.created")) == 3
    assert session.scalar(select(func.count()).where(Address.interface_id.is_not(None))) == 6


def test_parallel_creates_on_different_nodes_get_unique_addresses(site):
    """Operators choose the node, so these creates do not lock each other."""
    count = 6
    place = session.merge(site.cast.location)
    for number in range(count):
        hypervisors.create(place, **NODE_VALUES, name=f"other-{number}")
    session.commit()
    ids = session.scalars(select(Hypervisor.id).where(Hypervisor.name.startswith("other"))).all()
    for node in ids:
        nodes.probe(node)
    start = Barrier(count)

    def create(node):
        with site.app_context():
            cast, chosen = site.cast, session.get(Hypervisor, node)
            arguments = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test", "node": chosen}
            owner = session.merge(cast.owner)
            session.rollback()
            start.wait()
            instance = instances.create(owner, **arguments)
            addresses = [address.ip for address in instance.addresses]
            session.commit()
            return addresses

    with ThreadPoolExecutor(count) as operators:
        given = [ip for ips in operators.map(create, ids) for ip in ips]
    assert len(given) == len(set(given)) == 2 * count


@pytest.mark.parametrize(
    ("place", "room", "reason"),
    [
        (Hypervisor, {"memory_mb": 1100}, "resources_not_sufficient"),
        (Hypervisor, {"cpu_cores": 2, "cpu_overcommit": 1.0}, "resources_not_sufficient"),
        (Storage, {"capacity": 25 * hypervisors.BYTES_PER_GIB}, "storage_not_sufficient"),
    ],
)
def test_parallel_creates_do_not_exceed_node_capacity(site, order_in_parallel, place, room, reason):
    """The node has capacity for two machines of 512 MiB, one core, 10 GiB."""
    session.execute(update(place).values(room))
    session.commit()
    answers = order_in_parallel(8)
    assert sorted(answer.status_code for answer in answers) == [200] * 2 + [422] * 6
    assert {answer.json.get("reason") for answer in answers} == {None, reason}
    assert count_rows(Instance) == 2
    assert session.scalar(select(func.count()).where(Address.interface_id.is_not(None))) == 4


def test_parallel_creates_succeed_during_reconciliation(site, order_in_parallel):
    """Reconciliation writes the rows of several nodes all the time; creates do not deadlock with it."""
    place = session.merge(site.cast.location)
    for number in range(2, 5):
        hypervisors.create(place, **NODE_VALUES, name=f"node-{number}")
    session.commit()
    ids = session.scalars(select(Hypervisor.id)).all()
    for node in ids:
        nodes.probe(node)
    stop_signal = []

    def reconcile_until_stopped(node):
        with site.app_context():
            while not stop_signal:
                nodes.reconcile(node)

    with ThreadPoolExecutor(len(ids)) as watchers:
        reconciliations = [watchers.submit(reconcile_until_stopped, node) for node in ids]
        try:
            answers = order_in_parallel(12)
        finally:
            stop_signal.append(True)
    assert [answer.status_code for answer in answers] == [200] * 12
    assert [future.exception() for future in reconciliations] == [None] * len(ids)
    assert set(session.scalars(select(Instance.hypervisor_id))) <= set(ids)
