"""Sandboxes: create, list, show, end."""

from flask import g, request

from api.sandbox import list_query
from api.sandbox.answers import LIVE_STATES, STATES_BY_WORD, build_detail, build_listed, build_sandbox
from api.sandbox.bodies import NewSandbox
from api.sandbox.kit import (
    empty_answer,
    get_access,
    get_actor,
    is_second_generation,
    name_network_field,
    read_body,
    route,
)
from panel.core.db import session
from panel.core.errors import Invalid, NotFound, Problem
from panel.services import microvms
from panel.web.audit_view import audit_label

DEFAULT_TIMEOUT_SECONDS, FIRST_DEFAULT_TIMEOUT_SECONDS = 300, 15
"""The time-out of a sandbox that names none: by the second and the first generation of the routes."""
MAX_UNPAGED_ROWS = 1000
"""The most rows of the first generation's list, which has no pages."""
LOCATION_KEY = "location_id"
DEFAULT_TEMPLATE = "base"


def get_sandbox(sandbox_id, states=LIVE_STATES):
    """Return the account's micro VM. The first SDKs append a hyphen and another id to the sandbox's."""
    short_id = sandbox_id.partition("-")[0]
    try:
        microvm = microvms.get_by_sandbox_id(short_id, get_access())
    except NotFound:
        microvm = None
    if microvm is None or (states and microvm.state not in states):
        raise NotFound(f'Sandbox "{sandbox_id[:64]}" not found')
    return microvm


@route("POST", "/v2/sandboxes", "/sandboxes", op="create", can="microvm.manage", once=True)
@audit_label("Create sandbox")
def create():
    """Create a sandbox. It is accepted when the answer is sent; the guest is reachable when it has started."""
    body = read_body(NewSandbox)
    if not body["auto_pause_memory"] and not body["auto_pause"]:
        raise Problem("autoPauseMemory needs autoPause.", status=400)
    access, network = get_access(), body["network"] or {}
    settings = microvms.settings.get(access)
    image = find_image(body["template_id"], settings)
    default_timeout = DEFAULT_TIMEOUT_SECONDS if is_second_generation() else FIRST_DEFAULT_TIMEOUT_SECONDS
    on_timeout = settings.on_timeout or "kill"
    if body["auto_pause"] is not None:
        on_timeout = "pause" if body["auto_pause"] else "kill"
    metadata = body["metadata"] or {}
    with name_network_field("network."):
        microvm = microvms.create(
            access,
            location_id=choose_location(
                metadata.get(LOCATION_KEY, settings.location_id), with_internet=bool(network.get("allow_out"))
            ),
            image_id=image.id,
            name=image.name,
            actor=get_actor(),
            metadata=metadata,
            envs=body["envs"] or {},
            timeout_seconds=body["timeout"] or settings.timeout_seconds or default_timeout,
            on_timeout=on_timeout,
            allow_internet_access=body["allow_internet_access"] is not False,
            is_internet_required=False,  # SDKs ask for it unless their user forbids it
            allow_out=network.get("allow_out") or (),
            deny_out=network.get("deny_out") or (),
            origin="sandbox",
            api_key_id=g.caller.token_id,
        )
    return build_sandbox(microvm), 201


def find_image(name, settings):
    """Return the image of a template. The SDKs send `base` for none, which is then the account's default image."""
    image = None
    if name == DEFAULT_TEMPLATE and settings.image_id:
        image = microvms.images.find(settings.image_id, get_access())
    image = image or microvms.images.find(name, get_access())
    if image is None:
        raise NotFound(f'Template "{name[:64]}" not found')
    return image


def choose_location(location_id, *, with_internet):
    """Return the id of the location that was asked for, else of the first one that is available to the account; if
    possible one with internet access, when the sandbox needs it."""
    locations = microvms.list_locations(get_access())
    if location_id is not None:
        location = next((location for location in locations if location.id == location_id), None)
        if location is None or location.locked:
            raise Problem(f'The location "{location_id[:64]}" cannot be chosen.', status=400)
        return location_id
    available = [location for location in locations if location.available]
    location = next((location for location in available if location.internet_access >= with_internet), None)
    location = location or next(iter(available), None)
    if location is None:
        raise Invalid(microvms.locations_error(locations), reason="no_microvm_node")
    return location.id


@route("GET", "/v2/sandboxes", op="list", can="microvm.view")
def listing():
    """List sandboxes, a page at a time: `x-next-token` leads to the next one."""
    query = list_query.parse()
    statement = microvms.select_by_start(get_access(), **query.filters)
    rows = session.scalars(statement.limit(query.limit + 1)).all()
    page = rows[: query.limit]
    headers = {list_query.NEXT_TOKEN_HEADER: list_query.encode_cursor(page[-1])} if len(rows) > len(page) else {}
    return [build_listed(microvm) for microvm in page], 200, headers


@route("GET", "/sandboxes", op="list_running", can="microvm.view")
def list_running():
    """List running sandboxes, as the first SDKs did."""
    metadata = list_query.parse_metadata(request.args.get("metadata", ""))
    query = microvms.select_by_start(get_access(), states=STATES_BY_WORD["running"], metadata=metadata)
    return [build_listed(microvm) for microvm in session.scalars(query.limit(MAX_UNPAGED_ROWS))]


@route("GET", "/sandboxes/<sandbox_id>", op="get", can="microvm.view")
def show(sandbox_id):
    return build_detail(get_sandbox(sandbox_id))


@route("DELETE", "/sandboxes/<sandbox_id>", op="kill", can="microvm.delete")
@audit_label("End sandbox")
def kill(sandbox_id):
    """End a sandbox, running or paused. One that failed or was stopped elsewhere can be ended as well."""
    microvms.destroy(get_sandbox(sandbox_id, states=()), actor=get_actor())
    return empty_answer()
