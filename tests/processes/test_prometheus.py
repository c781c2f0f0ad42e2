"""Prometheus and promtool, as Debian has them, with a running panel."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from panel.core.config import ROOT
from panel.models.metrics import METRIC_NAMES, SLOTS_BY_STEP
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

TOKEN = "metrics-token-of-this-installation"
FOLDER = ROOT / "docs" / "monitoring"
REQUESTS = 60


@pytest.fixture
def installation_settings():
    return {"PANEL_METRICS_TOKEN": TOKEN, "PANEL_WEB_WORKERS": "2"}


class Prometheus:
    """A Prometheus server that scrapes an installation every second."""

    def __init__(self, folder, installation, customer):
        self.port = find_free_port()
        jobs = [
            build_job("panel", "/metrics", TOKEN, installation.bind),
            build_job("customer", "/api/metrics", customer.token, installation.bind),
        ]
        config = {
            "global": {"scrape_interval": "1s"},
            "rule_files": [str(FOLDER / "alert-rules.yml")],
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        command = [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with (folder / "prometheus.log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def query(self, expression):
        """Return the values of a query by their labels; nothing while Prometheus starts."""
        with suppress(OSError):
            return {
                tuple(value for name, value in sorted(row["metric"].items()) if name not in ("__name__", "instance")): (
                    float(row["value"][1])
                )
                for row in self.get(f"query?{urllib.parse.urlencode({'query': expression})}")["result"]
            }
        return {}

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]


def build_job(name, path, token, target):
    return {
        "job_name": name,
        "metrics_path": path,
        "authorization": {"credentials": token},
        "static_configs": [{"targets": [target]}],
    }


@pytest.fixture
def prometheus(tmp_path_factory, running, customer):
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), running, customer)
    yield server
    server.process.kill()
    server.process.wait()


@pytest.fixture
def running(installation):
    installation.start_all()
    return installation


def check_with_promtool(*arguments, text=None):
    result = subprocess.run(["promtool", "check", *arguments], input=text, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not result.stderr.strip(), result.stderr
    return result.stdout


def add_sample(installation, instance_id):
    """Store a sample of the instance, as a worker does after two polls."""
    step, now = 15, int(time.time())
    columns = {"instance_id": instance_id, "step": step, "slot": now // step % SLOTS_BY_STEP[step]}
    columns |= {"at": now // step * step}
    columns |= {f"{name}{ending}": 1.5 for name in METRIC_NAMES for ending in ("", "_max")}
    with sqlite3.connect(installation.data_dir / "panel.db", timeout=30) as database:
        database.execute(
            f"insert or replace into instance_metrics ({', '.join(columns)}) values ({', '.join('?' * len(columns))})",
            list(columns.values()),
        )


def test_prometheus_scrapes_panel(running, prometheus, customer):
    """MET-01, MET-05, MET-09: real samples of both, and rules that Prometheus can evaluate."""
    instance_id, task_id = customer.deploy()
    customer.wait_for_task(task_id)
    add_sample(running, instance_id)
    for path, token in (("/api/metrics", customer.token), ("/metrics", TOKEN)):
        check_with_promtool("metrics", text=running.fetch_text(path, token))
    wait_until(lambda: prometheus.query("up") == {("customer",): 1, ("panel",): 1}, "the first scrapes")
    wait_until(lambda: set(prometheus.query("hv_resource_up").values()) == {1}, "the instance to be up")
    assert list(prometheus.query("hv_instance_network_receive_mbps").values()) == [1.5]
    assert prometheus.query("panel_database_up + panel_redis_up") == {("panel",): 2}
    assert set(prometheus.query("panel_hypervisor_up").values()) == {1}
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 10
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    for expression in [target["expr"] for panel in panels for target in panel["targets"]]:
        query = urllib.parse.urlencode({"query": expression.replace("$__rate_interval", "1m")})
        assert prometheus.get(f"query?{query}")["resultType"] == "vector"  # 400 for a wrong query


def count_requests(installation):
    """Return the answers to `GET /api/connect` that one of the web processes reports, for all of them."""
    pattern = r'^panel_http_request_duration_seconds_count\{family="user_connect",status="200"\} (\S+)$'
    match = re.search(pattern, installation.fetch_text("/metrics", TOKEN), re.M)
    return float(match[1]) if match else 0


def test_requests_of_all_web_processes_are_counted(installation, customer):
    """Also those of a process that was killed. No worker and no Redis runs."""
    installation.start("web")
    wait_until(installation.is_answering, "the web server")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: customer.call("GET", "/api/connect"), range(REQUESTS)))
    assert {count_requests(installation) for _ in range(8)} == {REQUESTS}
    process = next(child for child in installation.list_children("web"))
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not process.is_running() or process.status() == "zombie", "the end of the process")
    wait_until(installation.is_answering, "the web server")
    assert {count_requests(installation) for _ in range(8)} == {REQUESTS}


def test_alert_rules_are_valid():
    assert "SUCCESS" in check_with_promtool("rules", str(FOLDER / "alert-rules.yml"))
