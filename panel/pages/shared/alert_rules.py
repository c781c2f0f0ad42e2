"""The conditions of alert rules in words, for customers and operators."""

from panel.core.formatting import localize_number
from panel.schemas.alert_rules import METRIC_UNITS
from panel.web.translation import get_request_language, lazy_gettext
from panel.web.translation import gettext as _

METRIC_LABELS = {
    "cpu_pct": lazy_gettext("CPU usage"),
    "mem_pct": lazy_gettext("Memory usage"),
    "disk_pct": lazy_gettext("Disk usage"),
    "bandwidth_in": lazy_gettext("Incoming traffic"),
    "bandwidth_out": lazy_gettext("Outgoing traffic"),
    "disk_read_bytes": lazy_gettext("Disk reads"),
    "disk_write_bytes": lazy_gettext("Disk writes"),
    "disk_read_iops": lazy_gettext("Disk read operations"),
    "disk_write_iops": lazy_gettext("Disk write operations"),
}
METRIC_ALIASES = {"cpu": "cpu_pct", "memory": "mem_pct"}
OPERATOR_LABELS = {
    "gt": lazy_gettext("is above"),
    "gte": lazy_gettext("is at least"),
    "lt": lazy_gettext("is below"),
    "lte": lazy_gettext("is at most"),
    "eq": lazy_gettext("is exactly"),
}


def describe_condition(rule):
    """Return the rule's condition as a sentence without a subject: "CPU usage is above 90 %"."""
    label = METRIC_LABELS[METRIC_ALIASES.get(rule.metric, rule.metric)]
    threshold = localize_number(f"{rule.threshold:g}", get_request_language())
    return f"{label} {OPERATOR_LABELS[rule.operator]} {threshold} {METRIC_UNITS[rule.metric]}"


def label_metric(name):
    return _("%(metric)s (%(unit)s)", metric=METRIC_LABELS[name], unit=METRIC_UNITS[name])
