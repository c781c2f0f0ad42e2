"""Connectors: public addresses of customers' micro VMs."""

from api import kit
from api.microvms import user
from api.microvms.customer import MANAGE_PERMISSION, VIEW_PERMISSION
from panel.schemas.microvm_connectors import MicrovmConnectorIn, MicrovmConnectorOut, MicrovmConnectorQuery
from panel.services.microvms import connectors

WRAPPED_CONNECTOR = kit.build_wrapped_schema("connector", MicrovmConnectorOut)


@user.get(
    "/microvm/connectors",
    op="connectors",
    can=VIEW_PERMISSION,
    query=MicrovmConnectorQuery,
    out=kit.build_page_schema(MicrovmConnectorOut),
)
def listing(query):
    """List the connectors of micro VMs, newest first.

    A connector is a public address: requests to its `url` reach a port of the micro VM.
    """
    return kit.paginate(connectors.listing(kit.get_current_access(), **query))


@user.post(
    "/microvm/connectors",
    op="connector_create",
    can=MANAGE_PERMISSION,
    body=MicrovmConnectorIn,
    out=WRAPPED_CONNECTOR,
)
def create(body):
    """Add a connector to a micro VM: a public address for one of its ports, open to everybody.

    Micro VMs with a connector count towards the account's `max_serverless_apps`. Refused with 422: `limit_reached`,
    `connector_limit` for more than 10 at one micro VM, `no_sandbox_domain` when the installation has no domain for
    them; under `label` when it is taken. 409: `microvm_failed`, `microvm_destroying`.
    """
    connector = connectors.create(kit.get_current_access(), **body)
    return {"message": "The connector is added.", "connector": connector}


@user.get("/microvm/connector/<connector_id>", op="connector", can=VIEW_PERMISSION, out=WRAPPED_CONNECTOR)
def show(connector_id):
    """Show a connector."""
    return {"connector": connectors.get(connector_id, kit.get_current_access())}


@user.delete(
    "/microvm/connector/<connector_id>", op="connector_delete", can=MANAGE_PERMISSION, out=kit.build_result_schema()
)
def delete(connector_id):
    """Remove a connector.

    Its address stops working with the next request, and its label can be used by everybody.
    """
    connectors.delete(connectors.get(connector_id, kit.get_current_access()))
    return {"message": "The connector is removed."}
