"""Creates that happen at the same moment: nothing is given out twice, and who comes too late leaves no trace."""

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

NODE = {"driver": "simulated", "uri": "simulated://", "storage_path": "/srv/disks"}


@pytest.fixture
def site(tmp_path):
    with isolated_installation(tmp_path, create=create_app) as app, app.app_context():
        yield app


@pytest.fixture
def order_in_parallel(site):
    """So many customers order a machine in the same moment; gives the answers."""

    def order(start):
        start.wait()
        wanted = {"location_id": site.cast.location.id, "plan_id": site.cast.plan.id}
        return site.test_client().post("/api/cloud-service/instances", json=wanted, headers=site.cast.headers("owner"))

    def at_once(count):
        start = Barrier(count)
        with ThreadPoolExecutor(count) as customers:
            answers = list(customers.map(order, [start] * count))
        session.rollback()
        session.expire_all()
        return answers

    return at_once


def rows(model):
    return session.scalar(select(func.count()).select_from(model))


@pytest.mark.parametrize("count", [2, 20])
def test_nobody_gets_the_same_address(site, order_in_parallel, count):
    answers = order_in_parallel(count)
    assert [answer.status_code for answer in answers] == [200] * count
    held = session.execute(select(Address.ip, Address.interface_id).where(Address.interface_id.is_not(None))).all()
    assert len({ip for ip, _ in held}) == 2 * count  # one IPv4 and one IPv6 each
    assert len({interface for _, interface in held}) == count


def test_the_last_addresses_go_to_the_first_and_the_others_leave_no_trace(site, order_in_parallel):
    pool = session.scalar(select(Subnet).where(Subnet.family == 4))
    for address in session.scalars(subnets.select_free(pool)).all()[3:]:
        address.reserved = True
    session.commit()
    answers = order_in_parallel(8)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [422] * 5
    assert {answer.json.get("reason") for answer in answers} == {None, "ipv4_not_available"}
    assert (rows(Instance), rows(Interface), rows(Disk)) == (3, 3, 3)
    assert session.scalar(select(func.count()).where(Event.kind == "instance.created")) == 3
    assert session.scalar(select(func.count()).where(Address.interface_id.is_not(None))) == 6


def test_nobody_gets_the_same_address_on_different_nodes(site):
    """Operators choose the node, so these creates do not wait for each other."""
    count = 6
    place = session.merge(site.cast.location)
    for number in range(count):
        hypervisors.create(place, **NODE, name=f"other-{number}")
    session.commit()
    ids = session.scalars(select(Hypervisor.id).where(Hypervisor.name.startswith("other"))).all()
    for node in ids:
        nodes.probe(node)
    start = Barrier(count)

    def create(node):
        with site.app_context():
            cast, chosen = site.cast, session.get(Hypervisor, node)
            wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test", "node": chosen}
            owner = session.merge(cast.owner)
            session.rollback()
            start.wait()
            made = instances.create(owner, **wanted)
            found = [address.ip for address in made.addresses]
            session.commit()
            return found

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
def test_the_last_place_on_a_node_is_given_once(site, order_in_parallel, place, room, reason):
    """There is room for two machines of 512 MiB, one core, 10 GiB."""
    session.execute(update(place).values(room))
    session.commit()
    answers = order_in_parallel(8)
    assert sorted(answer.status_code for answer in answers) == [200] * 2 + [422] * 6
    assert {answer.json.get("reason") for answer in answers} == {None, reason}
    assert rows(Instance) == 2
    assert session.scalar(select(func.count()).where(Address.interface_id.is_not(None))) == 4


def test_creates_go_on_while_nodes_are_looked_at(site, order_in_parallel):
    """Several nodes, whose rows are written all the time by those who look at them: nobody waits for ever."""
    place = session.merge(site.cast.location)
    for number in range(2, 5):
        hypervisors.create(place, **NODE, name=f"node-{number}")
    session.commit()
    ids = session.scalars(select(Hypervisor.id)).all()
    for node in ids:
        nodes.probe(node)
    over = []

    def look(node):
        with site.app_context():
            while not over:
                nodes.reconcile(node)

    with ThreadPoolExecutor(len(ids)) as eyes:
        looking = [eyes.submit(look, node) for node in ids]
        try:
            answers = order_in_parallel(12)
        finally:
            over.append(True)
    assert [answer.status_code for answer in answers] == [200] * 12
    assert [eye.exception() for eye in looking] == [None] * len(ids)
    assert set(session.scalars(select(Instance.hypervisor_id))) <= set(ids)
