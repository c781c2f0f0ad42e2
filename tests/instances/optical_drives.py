"""A running instance, and calls of its drives' routes."""

import pytest

from panel.core.db import session
from panel.models import Instance


@pytest.fixture
def instance(api_as, cast, run_tasks):
    """A running instance of the owner."""
    created_instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{created_instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    return session.get(Instance, created_instance.id)


@pytest.fixture
def post_drive_action(api_as, instance):
    """Return a function that calls a drive's routes: `post_drive_action("mount", iso_id=…)`."""

    def act(verb, slot="primary", caller="owner", **body):
        base = "/api/v1" if caller == "admin" else "/api"
        return api_as(caller, "POST", f"{base}/instance/{instance.id}/iso/{slot}/{verb}", json=body)

    return act
