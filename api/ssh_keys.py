"""SSH keys of a customer. The paths mix plural and singular, as existing clients use them (specification 4)."""

from marshmallow import fields

from api import kit
from panel.schemas.base import describe
from panel.schemas.ssh_keys import SshKeyGenerate, SshKeyIn, SshKeyOut, SshKeyPatch
from panel.services import ssh_keys

user = kit.User("ssh_key", __name__, description="SSH keys")

PRIVATE_KEY_FIELD = fields.String(
    **describe("The private key, shown once and kept nowhere.", "-----BEGIN OPENSSH PRIVATE KEY-----…")
)


@user.get("/ssh-keys", op="list", can="ssh_keys.view", query=kit.PageQuery, out=kit.build_page_schema(SshKeyOut))
def listing():
    """List SSH keys."""
    return kit.paginate(ssh_keys.listing(kit.get_current_access()))


@user.post(
    "/ssh-keys", op="create", can="ssh_keys.manage", body=SshKeyIn, out=kit.build_wrapped_schema("ssh_key", SshKeyOut)
)
def create(body):
    """Store a public key."""
    return {"message": "The key is stored.", "ssh_key": ssh_keys.create(kit.get_current_access(), **body)}


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
    """Make a key pair.

    The private half is in this answer and nowhere else.
    """
    key, private = ssh_keys.generate(kit.get_current_access(), **body)
    return {"message": "Keep the private key: it is not shown again.", "ssh_key": key, "private_key": private}


@user.get("/ssh-key/<key_id>", op="get", can="ssh_keys.view", out=kit.build_wrapped_schema("ssh_key", SshKeyOut))
def show(key_id):
    """Show an SSH key."""
    return {"message": None, "ssh_key": ssh_keys.get(key_id, kit.get_current_access())}


@user.patch(
    "/ssh-key/<key_id>",
    op="update",
    can="ssh_keys.manage",
    body=SshKeyPatch,
    out=kit.build_wrapped_schema("ssh_key", SshKeyOut),
)
def update(body, key_id):
    """Rename an SSH key or change its note."""
    key = ssh_keys.update(ssh_keys.get(key_id, kit.get_current_access()), **body)
    return {"message": "The key is changed.", "ssh_key": key}


@user.delete("/ssh-keys/<key_id>", op="delete", can="ssh_keys.delete", out=kit.build_result_schema())
def delete(key_id):
    """Remove an SSH key.

    Machines that have it keep it.
    """
    ssh_keys.delete(ssh_keys.get(key_id, kit.get_current_access()))
    return {"message": "The key is removed."}
