"""The conditions of alert rules in words, for customers and operators."""

from panel.core.formatting import localize_number
from panel.schemas.alert_rules import METRIC_LABELS, METRIC_UNITS
from panel.services import alert_messages
from panel.web.translation import get_request_language, lazy_gettext, translate
from panel.web.translation import gettext as _

OPERATOR_LABELS = {
    "gt": lazy_gettext("above"),
    "gte": lazy_gettext("at least"),
    "lt": lazy_gettext("below"),
    "lte": lazy_gettext("at most"),
    "eq": lazy_gettext("exactly"),
}


def describe_condition(rule):
    """Return the rule's condition in words, also for a plural metric: "Disk reads: at least 5 MB/s"."""
    label = translate(alert_messages.get_metric_label(rule.metric))
    return f"{label}: {OPERATOR_LABELS[rule.operator]} {format_metric_value(rule.metric, rule.threshold)}"


def format_metric_value(metric, value):
    return localize_number(alert_messages.format_value(metric, value), get_request_language())


def label_metric(name):
    return _("%(metric)s (%(unit)s)", metric=METRIC_LABELS[name], unit=METRIC_UNITS[name])
