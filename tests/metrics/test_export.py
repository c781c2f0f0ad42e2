"""Metrics for Prometheus: `GET /api/metrics` and `GET /api/metrics/instances/{id}`."""

import gzip
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import GuestInfo, Hypervisor, Instance, InstanceMetric
from panel.services import access, tokens
from panel.services.metrics import export
from tests.support.cast import UNKNOWN_ID
from tests.support.team import VIEW_PERMISSIONS, add_member  # noqa: F401  (fixtures)

ACCOUNT_PATH = "/api/metrics"
INSTANCE_FAMILIES = {
    f"hv_instance_{name}"
    for name in (
        "cpu_percent",
        "memory_percent",
        "disk_percent",
        "network_receive_mbps",
        "network_transmit_mbps",
        "disk_read_iops",
        "disk_write_iops",
    )
}


@pytest.fixture
def scrape(api_as):
    """Return a function that scrapes as one of the cast and returns {(family, instance id): value}."""

    def call(caller="owner", path=ACCOUNT_PATH):
        answer = api_as(caller, "GET", path)
        assert answer.status_code == 200, answer.text
        return read_samples(answer.text)

    return call


def read_samples(text):
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert all(sample.labels.keys() == {"id", "name"} for sample in samples)
    return {(sample.name, sample.labels["id"]): sample.value for sample in samples}


def list_ids(samples):
    return {instance_id for _, instance_id in samples}


def test_account_metrics_have_all_families_of_every_instance(api_as, cast, add_measured):
    """MET-01, MET-05, MET-06, MET-09, MET-11, MET-13, MET-14: with the content type of the text format."""
    instances = [add_measured(), add_measured()]
    answer = api_as("owner", "GET", ACCOUNT_PATH)
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = read_samples(answer.text)
    assert list_ids(samples) == set(session.scalars(select(Instance.id).where(Instance.account_id == cast.owner.id)))
    for instance in instances:
        values = {name: value for (name, id_), value in samples.items() if id_ == instance.id}
        assert values == {
            "hv_instance_cpu_percent": 12.5,
            "hv_instance_memory_percent": 50.0,
            "hv_instance_disk_percent": 25.0,
            "hv_instance_network_receive_mbps": 3.0,
            "hv_instance_network_transmit_mbps": 1.5,
            "hv_instance_disk_read_iops": 2.0,
            "hv_instance_disk_write_iops": 4.0,
            "hv_resource_up": 1.0,
        }
    for name in (*INSTANCE_FAMILIES, "hv_resource_up"):
        assert answer.text.count(f"# HELP {name} ") == answer.text.count(f"# TYPE {name} gauge\n") == 1


def test_instance_metrics_have_only_that_instance(scrape, add_measured):
    """MET-02"""
    instance, other = add_measured(), add_measured()
    samples = scrape(path=f"{ACCOUNT_PATH}/instances/{instance.id}")
    assert list_ids(samples) == {instance.id}
    assert len(samples) == 8
    assert list_ids(scrape(path=f"{ACCOUNT_PATH}/instances/{other.id}")) == {other.id}


@pytest.mark.parametrize("case", ["stopped", "node down", "old sample", "sample of the last round"])
def test_unmeasured_instance_is_not_up(scrape, add_measured, measure, case):
    """MET-10, MET-15: the status is 200, and no old value is sent."""
    instance = add_measured()
    if case == "stopped":
        instance.power = "off"
    elif case == "node down":
        session.get(Hypervisor, instance.hypervisor_id).status = "down"
    else:
        session.execute(delete(InstanceMetric))
        measure(instance, age_seconds=90 if case == "old sample" else 3600)
    session.commit()
    for path in (ACCOUNT_PATH, f"{ACCOUNT_PATH}/instances/{instance.id}"):
        samples = {key: value for key, value in scrape(path=path).items() if key[1] == instance.id}
        assert samples == {("hv_resource_up", instance.id): 0.0}


def test_newest_of_several_samples_is_sent(scrape, add_measured, measure):
    """MET-26: a single resource is not cached."""
    instance = add_measured()
    path = f"{ACCOUNT_PATH}/instances/{instance.id}"
    for age, percent in ((45, 40.0), (30, 30.0), (15, 20.0)):
        measure(instance, age, cpu_percent=percent)
    assert scrape(path=path)["hv_instance_cpu_percent", instance.id] == 12.5
    measure(instance, cpu_percent=77.0)
    assert scrape(path=path)["hv_instance_cpu_percent", instance.id] == 77.0


@pytest.mark.parametrize("case", ["none", "no file systems", "old", "before the start"])
def test_disk_percent_needs_recent_guest_report(scrape, add_measured, case):
    instance = add_measured()
    report = session.get(GuestInfo, instance.id)
    if case == "none":
        session.delete(report)
    elif case == "no file systems":
        report.filesystems = []
    elif case == "old":
        report.at = clock.now() - timedelta(minutes=16)
    else:
        report.at = instance.power_reported_at - timedelta(seconds=1)
    session.commit()
    samples = scrape()
    assert ("hv_instance_disk_percent", instance.id) not in samples
    assert samples["hv_resource_up", instance.id] == 1.0


def test_label_values_are_escaped(scrape, api_as, add_measured):
    """MET-29"""
    instance = add_measured()
    instance.display_name = name = 'a "b"\\ \n# TYPE x gauge'
    session.commit()
    text = api_as("owner", "GET", ACCOUNT_PATH).text
    names = {sample.labels["name"] for family in text_string_to_metric_families(text) for sample in family.samples}
    assert name in names
    assert len(scrape(path=f"{ACCOUNT_PATH}/instances/{instance.id}")) == 8


def test_body_has_nothing_of_the_platform(api_as, cast, add_measured):
    """MET-12"""
    instance = add_measured()
    texts = [api_as("owner", "GET", path).text for path in (ACCOUNT_PATH, f"{ACCOUNT_PATH}/instances/{instance.id}")]
    hypervisor = session.get(Hypervisor, instance.hypervisor_id)
    for secret in (hypervisor.id, f'"{hypervisor.name}"', hypervisor.uri, instance.group_id, instance.ipv4):
        assert secret is None or all(secret not in text for text in texts), secret


def test_member_sees_only_permitted_instances(scrape, api_as, add_member, add_measured):
    """MET-16, MET-17: one after the other, within the time of the cache."""
    chosen, other = add_measured(), add_measured()
    add_member("chooser", VIEW_PERMISSIONS, reach="chosen", grants=[chosen])
    add_member("blind", ["metrics.view"])
    add_member("stranger", ["instances.view"])
    for caller in ("owner", "chooser", "owner"):
        ids = list_ids(scrape(caller))
        assert chosen.id in ids
        assert (other.id in ids) is (caller == "owner")
    assert scrape("blind") == {}
    assert api_as("stranger", "GET", ACCOUNT_PATH).status_code == 403
    for caller, status in (("chooser", 404), ("blind", 403), ("stranger", 403), ("viewer", 200)):
        assert api_as(caller, "GET", f"{ACCOUNT_PATH}/instances/{other.id}").status_code == status


def test_views_of_different_members_have_different_cache_keys(cast, add_member, add_measured):
    """MET-17, TX-03"""
    chosen = add_measured()
    add_measured()
    add_member("chooser", VIEW_PERMISSIONS, reach="chosen", grants=[chosen])
    add_member("nothing", VIEW_PERMISSIONS, reach="chosen")
    add_member("everything", VIEW_PERMISSIONS)
    people = (cast.owner, cast.outsider, cast.chooser, cast.nothing, cast.everything)
    owner, outsider, chooser, nothing, everything = (
        export.make_view_key(access.get_for_account(person)) for person in people
    )
    assert len({owner, outsider, chooser, nothing}) == 4
    assert everything == owner


@pytest.mark.parametrize("caller", ["outsider", "owner"])
def test_foreign_and_unknown_ids_are_not_found(api_as, add_measured, caller):
    """MET-27, OP-05"""
    id_ = add_measured().id if caller == "outsider" else UNKNOWN_ID
    answer = api_as(caller, "GET", f"{ACCOUNT_PATH}/instances/{id_}")
    assert (answer.status_code, answer.json["message"]) == (404, "No such instance.")
    assert api_as("outsider", "GET", ACCOUNT_PATH).status_code == 200


def test_31st_scrape_within_a_minute_is_refused(api_as, cast, advance_time, add_measured):
    """MET-22, MET-23, MET-24, MET-28: the budget is that of a token, and both routes count."""
    instance = add_measured()
    paths = [ACCOUNT_PATH, f"{ACCOUNT_PATH}/instances/{instance.id}"] * 15
    assert {api_as("owner", "GET", path).status_code for path in paths} == {200}
    answer = api_as("owner", "GET", ACCOUNT_PATH)
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.headers["RateLimit-Limit"] == "30"
    cast.tokens["second"] = issue_second_token(cast)
    assert api_as("second", "GET", ACCOUNT_PATH).status_code == 200
    assert api_as("member", "GET", ACCOUNT_PATH).status_code == 200
    assert api_as("owner", "GET", "/api/instances").status_code == 200
    advance_time(120)
    for _ in range(20):
        assert api_as("owner", "GET", ACCOUNT_PATH).status_code == 200
        advance_time(15)


def issue_second_token(cast):
    return tokens.issue("user", name="second", account=cast.owner, scopes=["metrics:read"])[1]


def test_scrape_needs_scope(api_as, cast):
    cast.tokens["unscoped"] = tokens.issue("user", name="x", account=cast.owner, scopes=["instances:read"])[1]
    session.commit()
    answer = api_as("unscoped", "GET", ACCOUNT_PATH)
    assert answer.status_code == 403
    assert "metrics:read" in answer.json["message"]


def test_compressed_body_is_sent_on_request(api_as, add_measured):
    instance = add_measured()
    plain = api_as("owner", "GET", ACCOUNT_PATH)
    compressed = api_as("owner", "GET", ACCOUNT_PATH, headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert all("Accept-Encoding" in answer.headers["Vary"] for answer in (plain, compressed))
    assert instance.id in plain.text
    assert gzip.decompress(compressed.data) == plain.data


def test_query_count_does_not_grow_with_instances(api_as, queries, add_measured):
    add_measured()
    counts = []
    for _ in range(2):
        queries.clear()
        api_as("owner", "GET", ACCOUNT_PATH)
        counts.append(len(queries))
        add_measured()
    assert counts[0] == counts[1] <= 4
