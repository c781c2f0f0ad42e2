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
OWNER_DESCRIPTION = describe("Whose key it is.", EXAMPLE_ID)


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
    """List everybody's SSH keys, newest first.

    Public halves only. `search` looks at names.
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
    """List the SSH keys of one user, by name.

    404 when there is no such user.
    """
    return kit.paginate(ssh_keys.listing(accounts.get(account_id), **query))


@admin.post("/ssh-keys", op="create", can=WRITE_PERMISSION, body=SshKeyFor, out=AdminSshKeyOut)
def create(body):
    """Store a public key for a user.

    Instances get it at a deploy that names it or by a push. 422 under `name` when the user has a key of that name,
    under `public_key` for a text that is no key, under `user_id` for an unknown user.
    """
    kit.set_message("The key is stored.")
    return ssh_keys.create(accounts.get(body.pop("user_id"), "user_id"), **body)


@admin.post(
    "/ssh-key/generate", op="generate", can=WRITE_PERMISSION, body=SshKeyGenerateFor, out=GENERATED_KEY_RESPONSE
)
def generate(body):
    """Make a key pair for a user.

    The private half is in this answer and nowhere else. The panel keeps the public half. 422 under `name` when the user
    has a key of that name, under `user_id` for an unknown user.
    """
    key, private = ssh_keys.generate(accounts.get(body.pop("user_id"), "user_id"), **body)
    kit.set_message("Keep the private key: it is not shown again.")
    return {"ssh_key": key, "private_key": private}


@admin.get("/ssh-key/<key_id>", op="get", can=READ_PERMISSION, out=AdminSshKeyOut)
def show(key_id):
    """Show an SSH key.

    The public half with its fingerprint. 404 when there is no such key.
    """
    return ssh_keys.get(key_id)


@admin.delete("/ssh-key/<key_id>", op="delete", can=WRITE_PERMISSION)
def delete(key_id):
    """Remove an SSH key of a user.

    Machines that have it keep it. A deploy that names it afterwards answers 422.
    """
    ssh_keys.delete(ssh_keys.get(key_id))
    kit.set_message("The key is removed.")
