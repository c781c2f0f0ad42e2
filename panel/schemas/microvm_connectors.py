"""Connectors of micro VMs in the API."""

import re

from marshmallow import ValidationError, fields

from panel.core.messages import message
from panel.schemas.base import In, Int, Out, PageQuery, Text, Time, describe
from panel.schemas.microvms import EXAMPLE_ID, EXAMPLE_TIME

DAEMON_PORT = 49983
"""The port of the daemon in the guest. Its requests need a token, and it is reached by the micro VM's short id."""
LABEL_PATTERN = re.compile(r"[a-z0-9]([a-z0-9]|-(?!-)){0,62}")
RESERVED_LABELS = ("api", "sandbox", "www")
PORT_AND_ID_PATTERN = re.compile(r"[0-9]+-.*")
"""Labels that lead to any port of any micro VM, by its short id."""


class ConnectorLabel(Text):
    """A label of a host name that the sandbox domain does not use itself, in small letters."""

    def _deserialize(self, value, attr, data, **kwargs):
        label = super()._deserialize(value, attr, data, **kwargs).lower()
        if not LABEL_PATTERN.fullmatch(label) or label.endswith("-"):
            raise ValidationError(
                message("Use small letters, digits and single hyphens between them, 63 characters at most.")
            )
        if label in RESERVED_LABELS or PORT_AND_ID_PATTERN.fullmatch(label):
            raise ValidationError(message("This name is reserved. Choose another one."))
        return label


class ConnectorPort(Int):
    """A port of a micro VM at which its customer's programs may listen."""

    def _deserialize(self, value, attr, data, **kwargs):
        port = super()._deserialize(value, attr, data, **kwargs)
        if port == DAEMON_PORT:
            raise ValidationError(message("This port belongs to the micro VM's own daemon."))
        return port


class MicrovmConnectorIn(In):
    microvm_id = Text(maximum=36, required=True, **describe("A micro VM.", EXAMPLE_ID))
    port = ConnectorPort(1, 65535, required=True, **describe("The port of the micro VM that answers requests.", 8080))
    label = ConnectorLabel(
        maximum=63,
        load_default=None,
        allow_none=True,
        **describe("The first label of the host name, unique; else a random one.", "shop-preview"),
    )


class MicrovmConnectorQuery(PageQuery):
    microvm_id = Text(maximum=36, **describe("Only connectors of this micro VM.", EXAMPLE_ID))


class MicrovmConnectorOut(Out):
    id = fields.String(**describe("Connector id.", EXAMPLE_ID))
    microvm_id = fields.String(**describe("The micro VM that answers requests.", EXAMPLE_ID))
    port = fields.Integer(**describe("Its port.", 8080))
    label = fields.String(**describe("The first label of the host name.", "shop-preview"))
    url = fields.String(
        allow_none=True,
        **describe(
            "The public address. Null when the installation has no sandbox domain any more.",
            "https://shop-preview.sandboxes.example.com",
        ),
    )
    created_at = Time(**describe("When it was added.", EXAMPLE_TIME))
