"""Keys of the sandbox API."""

from flask import g
from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.microvm_api_keys import EXAMPLE_VALUE, MicrovmApiKeyIn, MicrovmApiKeyOut
from panel.services import microvm_api_keys, tokens

user = kit.User("microvm_api_key", __name__, description="Sandbox keys")

VALUE_FIELD = fields.String(**describe("The value, in this answer and nowhere else.", EXAMPLE_VALUE))


@user.get(
    "/microvm/api-keys",
    op="list",
    can="microvm.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(MicrovmApiKeyOut),
)
def listing():
    """List sandbox keys, newest first, revoked ones too.

    Values are never shown again.
    """
    page = kit.paginate(microvm_api_keys.listing(kit.get_current_access()))
    tokens.refresh_last_used(page["data"])
    return page


@user.post(
    "/microvm/api-keys",
    op="create",
    can="microvm.manage",
    body=MicrovmApiKeyIn,
    out=kit.build_result_schema(
        key=VALUE_FIELD, api_key=fields.Nested(MicrovmApiKeyOut, **describe("The key without its value."))
    ),
)
def create(body):
    """Create a sandbox key.

    Send its value in the header `X-API-Key` to `/api/sbx`. It belongs to the account and reaches all of its micro VMs
    and no other resources. Its maker needs the permissions `microvm.view`, `microvm.manage` and `microvm.delete`. A
    token that has allowed addresses or expires cannot create keys.
    """
    token = tokens.get_any_owner(g.caller.token_id)
    key, value = microvm_api_keys.create(kit.get_current_access(), requesting_token=token, **body)
    return {"message": "Keep the key: it is not shown again.", "key": value, "api_key": key}


@user.post(
    "/microvm/api-key/<api_key_id>/revoke",
    op="revoke",
    can="microvm.delete",
    out=kit.build_wrapped_schema("api_key", MicrovmApiKeyOut),
)
def revoke(api_key_id):
    """Revoke a sandbox key.

    It is refused from the next request on. This cannot be undone. 409 `already_revoked` for a revoked key.
    """
    key = microvm_api_keys.revoke(microvm_api_keys.get(api_key_id, kit.get_current_access()))
    tokens.refresh_last_used([key])
    return {"message": "The key is revoked.", "api_key": key}
