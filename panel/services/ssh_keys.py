"""Public keys of a customer."""

from base64 import b64decode, b64encode
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from sqlalchemy import Select, select

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, SshKey
from panel.services.access import Access
from panel.services.search_kinds import customer_search


@customer_search(
    "ssh_key",
    "SSH keys",
    permission="ssh_keys.view",
    position=30,
    describe=lambda key: (key.name, key.fingerprint),
)
def listing(account: Access | Account, *, search: str | None = None) -> Select[SshKey]:
    query = select(SshKey).where(account.visible_rows(SshKey)).order_by(SshKey.name, SshKey.id)
    return query.where(SshKey.name.icontains(search, autoescape=True)) if search else query


def list_all(search: str | None = None) -> Select[SshKey]:
    """Select the keys of all accounts, newest first; `search` looks at names."""
    query = select(SshKey).order_by(SshKey.id.desc())
    return query.where(SshKey.name.icontains(search, autoescape=True)) if search else query


def get(key_id: str, account: Access | Account | None = None) -> SshKey:
    """Return the key; with an account, one of its own."""
    query = select(SshKey).where(SshKey.id == key_id)
    key = session.scalar(query.where(account.visible_rows(SshKey)) if account else query)
    if key is None:
        raise NotFound(message("No such SSH key."))
    return key


def get_chosen(
    key_ids: Collection[str], account: Access | Account | None = None, error_field: str = "ssh_keys"
) -> Sequence[SshKey]:
    """Return the keys with these ids. With an account only its own are found; an operator may use any."""
    query = select(SshKey).where(SshKey.id.in_(key_ids))
    keys = session.scalars(query.where(account.visible_rows(SshKey)) if account else query).all()
    if len(keys) < len(set(key_ids)):
        raise Invalid(
            message("One of the SSH keys does not exist."),
            **{error_field: message("There is no such key in this account.")},
        )
    return keys


def create(account: Access | Account, *, name: str, public_key: str, comments: str | None = None) -> SshKey:
    if session.scalar(listing(account).where(SshKey.name == name)):
        raise Invalid(message("A key with this name already exists."), name=message("This name is taken."))
    comment = public_key.split(maxsplit=2)[2:]
    key = SshKey(
        account_id=account.id,
        name=name,
        public_key=public_key,
        fingerprint=compute_fingerprint(public_key),
        comments=comments if comments is not None else (comment[0].strip() if comment else None),
    )
    session.add(key)
    session.flush()
    return key


def update(key: SshKey, **changes: Any) -> SshKey:
    if "name" in changes and changes["name"] != key.name:
        query = select(SshKey.id).where(SshKey.account_id == key.account_id, SshKey.name == changes["name"])
        if session.scalar(query):
            raise Invalid(message("A key with this name already exists."), name=message("This name is taken."))
    for field, value in changes.items():
        setattr(key, field, value)
    session.flush()
    return key


def delete(key: SshKey) -> None:
    session.delete(key)


def generate(account: Access | Account, *, name: str, algorithm: str, bits: int | None = None) -> tuple[SshKey, str]:
    """Create a key pair. The private key is returned once and not stored."""
    private = (
        rsa.generate_private_key(65537, bits or 3072) if algorithm == "rsa" else ed25519.Ed25519PrivateKey.generate()
    )
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    key = create(account, name=name, public_key=f"{public.decode()} {name.replace(' ', '-')}")
    text = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return key, text.decode()


def compute_fingerprint(public_key: str) -> str:
    """Return `SHA256:…`, as ssh-keygen prints it. Raise Invalid if the text is no usable public key."""
    try:
        key = serialization.load_ssh_public_key(public_key.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise Invalid(
            message("This is not a public key."), public_key=message("Paste one line in OpenSSH format.")
        ) from None
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    blob = b64decode(line.split()[1])
    return "SHA256:" + b64encode(sha256(blob).digest()).decode().rstrip("=")
