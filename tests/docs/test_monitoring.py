"""docs/monitoring.md, the alert rules and the dashboard name the families that `/metrics` has."""

import json
import re

import pytest
import yaml

from panel.core.config import ROOT
from panel.services import platform_metrics, workers

FOLDER = ROOT / "docs" / "monitoring"
FAMILY_NAME = re.compile(r"\bpanel_[a-z_]+\b")
WEB_FAMILIES = {"panel_info", "panel_http_request_duration_seconds"}


@pytest.fixture
def family_names(rolled_back_app, monkeypatch):
    monkeypatch.setattr(workers, "count_alive", lambda: 1)
    families = platform_metrics.list_worker_families() + platform_metrics.list_database_families()
    return {family.name for family in families} | {"panel_database_up"} | WEB_FAMILIES


def find_families(text):
    return {re.sub(r"_(count|sum|bucket)$", "", name) for name in FAMILY_NAME.findall(text)}


def test_document_explains_every_family(family_names):
    section = (ROOT / "docs" / "monitoring.md").read_text().split("### Prometheus\n")[1].split("\n### ")[0]
    table = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert find_families(" ".join(table)) == family_names


def test_alert_rules_use_existing_families(family_names):
    groups = yaml.safe_load((FOLDER / "alert-rules.yml").read_text())["groups"]
    for rule in [rule for group in groups for rule in group["rules"]]:
        assert find_families(rule["expr"]) <= family_names, rule
        assert find_families(rule["expr"]) or rule["alert"] == "PanelDown"
        assert rule["annotations"]["summary"].endswith(".")


def test_dashboard_uses_existing_families(family_names):
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    for target in [target for panel in panels for target in panel["targets"]]:
        assert find_families(target["expr"]), target
        assert find_families(target["expr"]) <= family_names, target
