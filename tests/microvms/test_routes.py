"""What the router of sandboxes reads of a micro VM."""

from datetime import timedelta

from panel.core import clock
from panel.core.db import session
from panel.services import microvms
from panel.services.microvms import timeouts


def test_route_has_the_variables_of_image_and_micro_vm(microvm):
    microvm.image.envs = {"A": "image", "B": "image"}
    microvm.encrypted_envs = '{"B": "own"}'
    session.flush()
    route = microvms.find_route(microvm.sandbox_id)
    assert route.envs == {"A": "image", "B": "own"}
    assert (route.machine_id, route.hypervisor_id) == (microvm.id, microvm.hypervisor_id)
    assert (route.state, route.access_token) == ("running", microvm.access_token)


def test_route_of_expired_and_ended_micro_vms(microvm):
    microvm.expires_at = clock.now() - timedelta(seconds=1)
    session.flush()
    assert microvms.find_route(microvm.sandbox_id).state == "expired"
    microvm.ended_at = clock.now()
    session.flush()
    assert microvms.find_route(microvm.sandbox_id) is None
    assert microvms.find_route("unknown") is None


def test_start_that_takes_longer_than_the_timeout_is_no_expiry(microvm):
    microvm.expires_at, microvm.state = clock.now() - timedelta(seconds=1), "starting"
    session.flush()
    assert microvms.find_route(microvm.sandbox_id).state == "starting"
    microvm.state, microvm.is_timeout_pending = "running", True
    session.flush()
    assert microvms.find_route(microvm.sandbox_id).state == "running"
    microvm.state_changed_at -= timeouts.GUEST_START_LIMIT
    session.flush()
    assert microvms.find_route(microvm.sandbox_id).state == "expired"
