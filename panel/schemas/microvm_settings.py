"""Settings of an account for new micro VMs in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Int, Out, Patch, Text, describe
from panel.schemas.microvms import EXAMPLE_ID, MAX_TIMEOUT_SECONDS, TIMEOUT_ACTIONS

TIMEOUT_DESCRIPTION = describe(
    "Seconds until a new micro VM ends by itself, when its creation names none. Null: it does not end, and a sandbox"
    " ends after 300 s, or after 15 s when it was created by a route of the first generation.",
    3600,
)
LOCATION_DESCRIPTION = describe("The location of new micro VMs whose creation names none.", EXAMPLE_ID)
IMAGE_DESCRIPTION = describe(
    "The image of new micro VMs whose creation names none, and of sandboxes of the template `base`.", EXAMPLE_ID
)
ON_TIMEOUT_DESCRIPTION = describe(
    "What the time-out does when the creation does not say it: `kill` destroys, `pause` pauses. Null is `kill`.",
    "pause",
)


class MicrovmSettingsOut(Out):
    location_id = fields.String(allow_none=True, **LOCATION_DESCRIPTION)
    image_id = fields.String(allow_none=True, **IMAGE_DESCRIPTION)
    timeout_seconds = fields.Integer(allow_none=True, **TIMEOUT_DESCRIPTION)
    on_timeout = fields.String(allow_none=True, validate=validate.OneOf(TIMEOUT_ACTIONS), **ON_TIMEOUT_DESCRIPTION)


class MicrovmSettingsPatch(Patch):
    location_id = Text(maximum=36, allow_none=True, **LOCATION_DESCRIPTION)
    image_id = Text(maximum=36, allow_none=True, **IMAGE_DESCRIPTION)
    timeout_seconds = Int(1, MAX_TIMEOUT_SECONDS, allow_none=True, **TIMEOUT_DESCRIPTION)
    on_timeout = fields.String(allow_none=True, validate=validate.OneOf(TIMEOUT_ACTIONS), **ON_TIMEOUT_DESCRIPTION)
