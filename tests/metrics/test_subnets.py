"""The traffic of subnets: what polls add up, and its chart."""

import pytest
from lxml import html
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Subnet, SubnetMetric
from panel.models.metrics import SUBNET_SLOTS_BY_STEP
from panel.services import hypervisors
from panel.services.metrics.subnets import add_traffic, get_subnet_series
from worker.nodes.base import MachineStatus, Power
from worker.sync import metrics

MEGABIT = 125_000


@pytest.fixture
def subnet(cast):
    return session.scalar(select(Subnet).where(Subnet.name == "v4"))


@pytest.fixture
def sample_traffic(cast, running_instance, fake_time):
    """Return a function that records a sample after 15 seconds in which the guest received and sent these bytes."""
    mac = running_instance.interfaces[0].mac
    counters = {"received": 1000, "sent": 1000, "cpu_seconds": 1}

    def record(received=0, sent=0, power=Power.on):
        counters["received"] += received
        counters["sent"] += sent
        counters["cpu_seconds"] += 1
        traffic = {name: {mac: counters[name]} for name in ("received", "sent")}
        status = MachineStatus(running_instance.id, "m", power, cpu_seconds=counters["cpu_seconds"], **traffic)
        sample = metrics.NodeSample(fake_time.wall, {running_instance.id: status})
        metrics.record_sample(cast.node.id, sample)
        fake_time.advance(15)

    metrics.last_samples.clear()
    record()
    return record


def list_rows(subnet, step=300):
    query = select(SubnetMetric).where(SubnetMetric.subnet_id == subnet.id, SubnetMetric.step == step)
    return session.scalars(query.order_by(SubnetMetric.at).execution_options(populate_existing=True)).all()


def test_samples_of_a_step_are_added_up(subnet, sample_traffic, fake_time):
    start = fake_time.wall.timestamp()
    sample_traffic(received=15 * MEGABIT, sent=30 * MEGABIT)
    sample_traffic(received=45 * MEGABIT)
    for step in SUBNET_SLOTS_BY_STEP:
        (row,) = list_rows(subnet, step)
        assert (row.at, row.seconds) == (start // step * step, 30)
        assert (row.received, row.sent) == (60 * MEGABIT, 30 * MEGABIT)
    (point,) = get_subnet_series(subnet, "12h")["points"]
    assert (point["network_receive_mbps"], point["network_transmit_mbps"]) == (2, 1)


def test_each_subnet_of_an_interface_counts_its_traffic(subnet, sample_traffic, running_instance):
    sample_traffic(received=15 * MEGABIT)
    used = {address.subnet_id for address in running_instance.interfaces[0].addresses}
    assert len(used) == 2
    assert {row.subnet_id: row.received for row in session.scalars(select(SubnetMetric))} == dict.fromkeys(
        used, 15 * MEGABIT
    )


def test_machine_that_is_off_counts_as_no_traffic(subnet, sample_traffic):
    sample_traffic(received=15 * MEGABIT, power=Power.off)
    (row,) = list_rows(subnet)
    assert (row.received, row.seconds) == (0, 15)


def test_restarted_counters_count_as_no_traffic(subnet, sample_traffic):
    sample_traffic(received=-900)
    (row,) = list_rows(subnet)
    assert (row.received, row.sent) == (0, 0)


def test_measurement_that_is_added_twice_changes_no_rate(cast, subnet, fake_time):
    for _ in range(2):
        add_traffic(cast.node.id, {subnet.id: (15 * MEGABIT, 0)}, 15, fake_time.wall.timestamp())
    (point,) = get_subnet_series(subnet, "1w")["points"]
    assert point["network_receive_mbps"] == 1


def test_traffic_of_hypervisors_is_summed_up(cast, subnet, fake_time):
    other = hypervisors.create(
        cast.location, name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/a"
    )
    for node, seconds in ((cast.node, 15), (other, 30)):
        add_traffic(node.id, {subnet.id: (30 * MEGABIT, 0)}, seconds, fake_time.wall.timestamp())
    (point,) = get_subnet_series(subnet, "1d")["points"]
    assert point["network_receive_mbps"] == 3
    hypervisors.delete(other)
    (point,) = get_subnet_series(subnet, "1d")["points"]
    assert point["network_receive_mbps"] == 2


def test_new_round_replaces_old_rows(cast, subnet, fake_time):
    for _ in range(SUBNET_SLOTS_BY_STEP[300] + 10):
        add_traffic(cast.node.id, {subnet.id: (300 * MEGABIT, 0)}, 300, fake_time.wall.timestamp())
        fake_time.advance(300)
    rows = list_rows(subnet)
    assert len(rows) == SUBNET_SLOTS_BY_STEP[300]
    assert {row.received for row in rows} == {300 * MEGABIT}
    assert fake_time.wall.timestamp() - rows[0].at <= 300 * SUBNET_SLOTS_BY_STEP[300]


def test_subnet_page_shows_its_traffic(browser_as, cast, subnet, queries):
    now, browser, path = clock.now().timestamp(), browser_as("admin"), f"/admin/subnets/{subnet.id}/traffic"
    page = html.fromstring(browser.get(path).text)
    assert page.xpath("//p[@data-no-data and not(@hidden)]")
    for age in range(600, 3000, 300):
        add_traffic(cast.node.id, {subnet.id: (600 * MEGABIT, 300 * MEGABIT)}, 300, now - age)
    session.commit()
    page = html.fromstring(browser.get(path).text)
    assert page.xpath("//section[.//div[@class='chart']]/@aria-label") == ["Network"]
    cells = page.xpath("//tr[@data-metric='network_receive_mbps']/td/text()")
    assert cells == ["2.00 Mbit/s"] * 3
    assert page.xpath("//nav[@aria-label='Time range']/a/text()") == ["12 h", "1 day", "1 week"]
    queries.clear()
    data = browser.get(page.xpath("//@data-charts")[0]).json
    assert len([text for text in queries if "subnet_metrics" in text]) == 1
    assert set(data["values"]["network_transmit_mbps"]) == {1}
    assert f'href="{path}"' in browser.get(f"/admin/subnets/{subnet.id}").text


def test_traffic_of_subnets_is_for_operators(browser_as, subnet):
    for ending in ("", "/data"):
        assert browser_as("owner").get(f"/admin/subnets/{subnet.id}/traffic{ending}").status_code == 403
        assert browser_as("admin").get(f"/admin/subnets/x/traffic{ending}").status_code == 404
