"""`/metrics`: figures of the panel for the Prometheus of its operators.

It is open only with the token of `PANEL_METRICS_TOKEN`. It answers while Redis, the database or hypervisors are away.
"""

import hmac

from flask import Blueprint, Response

import panel
from panel.auth.tokens import read_bearer_token
from panel.core import context
from panel.core.database_errors import find_outage
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.services import platform_metrics
from panel.services.platform_metrics import GaugeFamily
from panel.web import request_metrics

bp = Blueprint("platform_metrics", __name__)


@bp.get("/metrics")
def show():
    """Return the metrics of the platform. Without a configured token there is nothing at this address."""
    token = context.current().config.metrics_token
    if not token:
        raise NotFound(message("There is nothing at this address."))
    if not is_authorized(token):
        return Response("The token is missing or wrong.\n", 401, {"WWW-Authenticate": "Bearer"}, mimetype="text/plain")
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

    registry = CollectorRegistry(auto_describe=False)
    registry.register(PlatformCollector())
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def is_authorized(token: str) -> bool:
    return hmac.compare_digest(read_bearer_token().encode(), token.encode())


class PlatformCollector:
    """What one scrape returns."""

    def collect(self):
        yield from request_metrics.collect()
        version = GaugeFamily("panel_info", "The version of the panel.", ("version",), [((panel.__version__,), 1)])
        for family in (version, *platform_metrics.list_worker_families(), *list_database_families()):
            yield build_gauge(family)


def list_database_families():
    """Return what the database tells, or only that it is away."""
    try:
        return [platform_metrics.build_database_family(1), *platform_metrics.list_database_families()]
    except Exception as error:
        if find_outage(error) is None:
            raise
        session.rollback()
        return [platform_metrics.build_database_family(0)]


def build_gauge(family):
    from prometheus_client.core import GaugeMetricFamily

    gauge = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for labels, value in family.samples:
        gauge.add_metric(labels, value)
    return gauge
