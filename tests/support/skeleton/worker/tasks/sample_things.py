"""Applying customers' sample things."""

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import SampleThing
from panel.services import sample_things
from worker.engine.registry import task_handler


@task_handler(sample_things.APPLY_TASK_KIND)
def apply(work):
    """Apply the sample thing. It may run twice."""
    work.step(message("Applying the sample thing"), 50)
    sample_thing = session.get(SampleThing, work.task.resource_id, populate_existing=True)
    if sample_thing is None:
        raise NotFound(message("The sample thing was deleted."))
    sample_thing.is_applied = True
