"""Deployed instances, and the form of a new one."""

from panel.core.db import session
from panel.services import instances


def build_form(cast, **values):
    return {"location_id": cast.location.id, "plan_id": cast.plan.id, "image_id": cast.image.id, **values}


def create_deployed_instance(cast, work, **values):
    instance = cast.instance(**values)
    instances.deploy(instance, image_id=cast.image.id, account=cast.owner, actor="owner@example.com")
    session.commit()
    work()
    return instance
