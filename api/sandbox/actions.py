"""What can be done with a sandbox: time-out, connect, pause, resume."""

from api.sandbox.answers import build_sandbox
from api.sandbox.bodies import ConnectIn, NetworkUpdate, RefreshIn, ResumeIn, TimeoutIn
from api.sandbox.kit import Body, empty_answer, get_actor, name_network_field, read_body, route
from api.sandbox.sandboxes import get_sandbox
from panel.core.errors import Conflict
from panel.services import microvms
from panel.web.audit_view import audit_label
from panel.workflows import microvm_settling


@route("POST", "/sandboxes/<sandbox_id>/timeout", op="set_timeout", can="microvm.manage")
@audit_label("Set time-out of sandbox")
def set_timeout(sandbox_id):
    """Let the sandbox end that many seconds from now, earlier or later than before. 0 and less end it now."""
    seconds = read_body(TimeoutIn)["timeout"]
    microvm = get_sandbox(sandbox_id)
    if seconds > 0:
        microvms.set_timeout(microvm, seconds)
    else:
        microvms.expiry.apply_timeout(microvm)
    return empty_answer()


@route("POST", "/sandboxes/<sandbox_id>/refreshes", op="refresh", can="microvm.manage")
@audit_label("Extend sandbox")
def refresh(sandbox_id):
    """Extend a sandbox, as the first SDKs did. It never ends earlier than before."""
    seconds = read_body(RefreshIn)["duration"]
    microvms.set_timeout(get_sandbox(sandbox_id), seconds, only_extend=True)
    return empty_answer()


@route(
    "POST", "/v2/sandboxes/<sandbox_id>/connect", "/sandboxes/<sandbox_id>/connect", op="connect", can="microvm.manage"
)
@audit_label("Connect to sandbox")
def connect(sandbox_id):
    """Return how a running sandbox is reached, and extend it: 200. Resume a paused one: 201."""
    seconds = read_body(ConnectIn)["timeout"]
    if is_resumed := resume_paused(sandbox_id, seconds):
        return build_sandbox(is_resumed), 201
    microvm = get_sandbox(sandbox_id)
    if seconds:
        microvms.set_timeout(microvm, seconds, only_extend=True)
    return build_sandbox(microvm), 200


def resume_paused(sandbox_id, seconds):
    """Resume the sandbox and return it if it is paused or being paused, else None."""
    microvm = get_sandbox(sandbox_id)
    if microvm.state not in ("pausing", "paused"):
        return None
    microvm_settling.wait_until_settled(microvm)
    microvm = get_sandbox(sandbox_id)
    if microvm.state != "paused":  # the pause failed
        return None
    microvms.resume(microvm, actor=get_actor(), timeout_seconds=seconds)
    return microvm


@route("POST", "/sandboxes/<sandbox_id>/pause", op="pause", can="microvm.manage")
@audit_label("Pause sandbox")
def pause(sandbox_id):
    """Pause a sandbox with its memory. 409 when it is paused already."""
    read_body(Body)
    microvm = get_sandbox(sandbox_id)
    if microvm.state in ("pausing", "paused"):
        raise Conflict(f'Sandbox "{microvm.sandbox_id}" is already paused')
    microvm_settling.wait_until_settled(microvm)
    microvms.pause(get_sandbox(sandbox_id), actor=get_actor())
    return empty_answer()


@route("POST", "/sandboxes/<sandbox_id>/resume", op="resume", can="microvm.manage")
@audit_label("Resume sandbox")
def resume(sandbox_id):
    """Resume a paused sandbox, as the SDKs did before they connected. 409 when it runs."""
    body = read_body(ResumeIn)
    microvm = resume_paused(sandbox_id, body["timeout"])
    if microvm is None:
        raise Conflict(f'Sandbox "{sandbox_id[:64]}" is already running')
    if body["auto_pause"] is not None:
        microvms.update(microvm, {"on_timeout": "pause" if body["auto_pause"] else "kill"}, actor=get_actor())
    return build_sandbox(microvm), 201


@route("PUT", "/sandboxes/<sandbox_id>/network", op="set_network", can="microvm.manage")
@audit_label("Change network of sandbox")
def set_network(sandbox_id):
    """Replace what the sandbox may connect to. The node applies it a moment later, also to a running sandbox."""
    body = read_body(NetworkUpdate)
    microvm = get_sandbox(sandbox_id)
    is_wanted = body["allow_internet_access"]
    changes = {
        # What the SDKs call cleared is the default: internet access where there is any.
        "allow_internet_access": microvm.is_internet_offered if is_wanted is None else is_wanted,
        "allow_out": list(body["allow_out"] or ()),
        "deny_out": list(body["deny_out"] or ()),
    }
    with name_network_field():
        microvms.network.update(microvm, changes, actor=get_actor())
    return empty_answer()
