"""Recording what is allocated of each location, for the forecasts of the operators' overview."""

from panel.core.db import session
from panel.services import capacity_forecast
from worker.engine.registry import periodic


@periodic(seconds=3600)
def record_allocations() -> None:
    capacity_forecast.record_allocations()
    session.commit()
