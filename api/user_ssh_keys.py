"""All customers' SSH keys, for operators."""

from marshmallow import fields

from api import kit
from api.ssh_keys import PRIVATE_KEY_FIELD
from panel.schemas.base import Text, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.ssh_keys import AdminSshKeyOut, SshKeyGenerate, SshKeyIn, SshKeyQuery
from panel.services import accounts, ssh_keys

admin = kit.Admin("ssh_key", __name__, description="SSH keys of users")
READ_PERMISSION, WRITE_PERMISSION = "admin:accounts:read", "admin:accounts:write"
OWNER_DESCRIPTION = describe("The owner.", EXAMPLE_ID)


class SshKeyFor(SshKeyIn):
    user_id = Text(maximum=36, required=True, **OWNER_DESCRIPTION)


class SshKeyGenerateFor(SshKeyGenerate):
    user_id = Text(maximum=36, required=True, **OWNER_DESCRIPTION)


GENERATED_KEY_RESPONSE = kit.Schema.from_dict(
    {"ssh_key": fields.Nested(AdminSshKeyOut, **describe("The key.")), "private_key": PRIVATE_KEY_FIELD},
    name="GeneratedSshKey",
)


@admin.get(
    "/ssh-keys", op="list", can=READ_PERMISSION, query=SshKeyQuery, out=kit.build_admin_page_schema(AdminSshKeyOut)
)
def listing(query):
    """List the SSH keys of all users, newest first.

    Contains public keys only. `search` matches names.
    """
    return kit.paginate(ssh_keys.list_all(**query))


@admin.get(
    "/ssh-keys/user/<account_id>",
    op="list_by_user",
    can=READ_PERMISSION,
    query=SshKeyQuery,
    out=kit.build_admin_page_schema(AdminSshKeyOut),
)
def list_by_user(query, account_id):
    """List the SSH keys of a user, by name.

    Returns 404 if the user does not exist.
    """
    return kit.paginate(ssh_keys.listing(accounts.get(account_id), **query))


@admin.post("/ssh-keys", op="create", can=WRITE_PERMISSION, body=SshKeyFor, out=AdminSshKeyOut)
def create(body):
    """Add a public SSH key for a user.

    Instances get it with a deployment that uses it, or when it is installed through the guest agent. Returns 422 under
    `name` if the user already has a key with that name, under `public_key` for an invalid key, and under `user_id` for
    an unknown user.
    """
    kit.set_message("SSH key created.")
    return ssh_keys.create(accounts.get(body.pop("user_id"), "user_id"), **body)


@admin.post(
    "/ssh-key/generate", op="generate", can=WRITE_PERMISSION, body=SshKeyGenerateFor, out=GENERATED_KEY_RESPONSE
)
def generate(body):
    """Generate an SSH key pair for a user.

    The private key is only returned in this response; the panel stores the public key. Returns 422 under `name` if the
    user already has a key with that name, and under `user_id` for an unknown user.
    """
    key, private = ssh_keys.generate(accounts.get(body.pop("user_id"), "user_id"), **body)
    kit.set_message("SSH key created. Save the private key now. It will not be shown again.")
    return {"ssh_key": key, "private_key": private}


@admin.get("/ssh-key/<key_id>", op="get", can=READ_PERMISSION, out=AdminSshKeyOut)
def show(key_id):
    """Get an SSH key with its fingerprint.

    Returns 404 if the key does not exist.
    """
    return ssh_keys.get(key_id)


@admin.delete("/ssh-key/<key_id>", op="delete", can=WRITE_PERMISSION)
def delete(key_id):
    """Delete an SSH key of a user.

    The key is not removed from instances that have it. A deployment that uses it afterwards returns 422.
    """
    ssh_keys.delete(ssh_keys.get(key_id))
    kit.set_message("SSH key deleted.")
