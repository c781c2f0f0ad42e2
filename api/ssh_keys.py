"""SSH keys of a customer. The paths mix plural and singular, as existing clients use them (OTH-13)."""

from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.ssh_keys import SshKeyGenerate, SshKeyIn, SshKeyOut, SshKeyPatch
from panel.services import ssh_keys

user = kit.User("ssh_key", __name__, description="SSH keys")

PRIVATE_KEY_FIELD = fields.String(
    **describe(
        "The private key. Only returned in this response and not stored.", "-----BEGIN OPENSSH PRIVATE KEY-----…"
    )
)


@user.get("/ssh-keys", op="list", can="ssh_keys.view", query=kit.PageQuery, out=kit.build_page_schema(SshKeyOut))
def listing():
    """List SSH keys."""
    return kit.paginate(ssh_keys.listing(kit.get_current_access()))


@user.post(
    "/ssh-keys", op="create", can="ssh_keys.manage", body=SshKeyIn, out=kit.build_wrapped_schema("ssh_key", SshKeyOut)
)
def create(body):
    """Add a public SSH key."""
    return {"message": "SSH key created.", "ssh_key": ssh_keys.create(kit.get_current_access(), **body)}


@user.post(
    "/ssh-key/generate",
    op="generate",
    can="ssh_keys.manage",
    body=SshKeyGenerate,
    out=kit.build_result_schema(
        ssh_key=fields.Nested(SshKeyOut, **describe("The key.")), private_key=PRIVATE_KEY_FIELD
    ),
)
def generate(body):
    """Generate an SSH key pair.

    The private key is only returned in this response and is not stored.
    """
    key, private = ssh_keys.generate(kit.get_current_access(), **body)
    return {
        "message": "SSH key created. Save the private key now. It will not be shown again.",
        "ssh_key": key,
        "private_key": private,
    }


@user.get("/ssh-key/<key_id>", op="get", can="ssh_keys.view", out=kit.build_wrapped_schema("ssh_key", SshKeyOut))
def show(key_id):
    """Get an SSH key."""
    return {"message": None, "ssh_key": ssh_keys.get(key_id, kit.get_current_access())}


@user.patch(
    "/ssh-key/<key_id>",
    op="update",
    can="ssh_keys.manage",
    body=SshKeyPatch,
    out=kit.build_wrapped_schema("ssh_key", SshKeyOut),
)
def update(body, key_id):
    """Rename an SSH key or change its comment."""
    key = ssh_keys.update(ssh_keys.get(key_id, kit.get_current_access()), **body)
    return {"message": "SSH key updated.", "ssh_key": key}


@user.delete("/ssh-keys/<key_id>", op="delete", can="ssh_keys.delete", out=kit.build_result_schema())
def delete(key_id):
    """Delete an SSH key.

    The key is not removed from instances that have it.
    """
    ssh_keys.delete(ssh_keys.get(key_id, kit.get_current_access()))
    return {"message": "SSH key deleted."}
