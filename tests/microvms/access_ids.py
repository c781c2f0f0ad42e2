"""Ids of the owner's resources for the placeholders in paths, for tests/test_access.py."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import HypervisorGroup, Microvm, MicrovmConnector, MicrovmSnapshot
from panel.services.microvms import profiles
from tests.support.microvms import register_image


def create_ids(api_as):
    location = session.scalars(select(HypervisorGroup)).first()
    profiles.create(hypervisor_id=location.hypervisors[0].id)
    body = {"location_id": location.id, "image_id": register_image().id, "name": "worker"}
    microvm_id = api_as("owner", "POST", "/api/microvm/vms", json=body).json["vm"]["id"]
    microvm = session.get(Microvm, microvm_id)
    microvm.state = "running"
    snapshot = MicrovmSnapshot(microvm=microvm, name="ready", status="available")
    connector = MicrovmConnector(account_id=microvm.account_id, microvm_id=microvm_id, label="shop", port=80)
    session.add_all([snapshot, connector])
    session.commit()
    own_image = register_image("own", aliases=[], account_id=microvm.account_id)
    return {
        "microvm_id": microvm_id,
        "microvm_snapshot_id": snapshot.id,
        "connector_id": connector.id,
        "microvm_image_id": own_image.id,
    }
