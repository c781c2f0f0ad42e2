"""How much a machine has written since a moment."""

from datetime import timedelta

from panel.core import clock
from panel.core.db import session
from panel.models.metrics import METRIC_NAMES
from panel.services import metrics


def test_written_bytes_are_those_after_the_moment(rolled_back_app, cast):
    instance = cast.instance()
    now = clock.now()
    for seconds, rate in ((300, 100.0), (90, 10.0), (60, 20.0)):
        metrics.write(
            {instance.id: dict.fromkeys(METRIC_NAMES, 0.0) | {"disk_write_bytes": rate}},
            (now - timedelta(seconds=seconds)).timestamp(),
        )
    session.commit()
    assert metrics.count_written_bytes(instance, now - timedelta(seconds=120)) == (10 + 20) * 15
    assert metrics.count_written_bytes(instance, now - timedelta(seconds=10)) is None  # no sample
    assert metrics.count_written_bytes(instance, now - timedelta(days=30)) is None  # samples are not kept so long
