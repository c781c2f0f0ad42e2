"""From a request to the audit log: who acted, from where, on what."""

from flask import g, request

from panel.auth import browser_session
from panel.auth.tokens import source_address
from panel.core.db import is_read_only_request, session
from panel.services import audit


def start_tracking():
    """From here on what the request does is gathered."""
    audit.start_tracking()


def write_entry():
    """Writes down what the request did, before its transaction is committed. A program that was let in leaves an entry
    for every operation that writes; at the pages, where a refused form may look like any other answer, only what
    touched something counts."""
    if not is_read_only_request() and not g.get("repeated"):
        audit.write(about=address_ids(), always="caller" in g, **actor(), **request_facts())


def log_failed_sign_in(email):
    """Has a sign-in that was refused written down, although its request keeps nothing: for a wrong password, a wrong
    code or a passkey that is not known."""
    g.refused_sign_in = email, request_facts()


def write_failed_sign_in():
    """Writes down the sign-in that this request refused, if it did, in a transaction of its own."""
    if refusal := g.pop("refused_sign_in", None):
        email, facts = refusal
        session.rollback()
        audit.add_failed_sign_in(email, **facts)
        session.commit()


def address_ids():
    """The ids in the address, by their names. Other parts of it are words of ours."""
    return {name: str(value) for name, value in (request.view_args or {}).items() if name.endswith("_id")}


def request_facts():
    return {"ip": str(source_address()), "action": g.get("operation") or request.endpoint}


def actor():
    """The person or token of this request."""
    if "caller" in g:
        return token_actor(g.caller)
    access = browser_session.current_access()
    if access is None:
        return {"person": "nobody", "person_kind": "nobody"}
    if (request.blueprint or "").partition("_")[0] == "admin":
        return {"person": access.email, "person_id": access.person_id, "person_kind": "operator"}
    return person_actor(access)


def session_owner(by_operator=False):
    """The same for what stays open after the request: it ends with the token or the browser's session. `operator`: the
    person acts as one although the page is the customers'."""
    if "caller" in g:
        return token_actor(g.caller)
    access = browser_session.current_access()
    person = (
        {"person": access.email, "person_id": access.person_id, "person_kind": "operator"} if by_operator else actor()
    )
    return person | {"sign_in_id": browser_session.current_user.sign_in.id}


def token_actor(principal):
    facts = {"token_id": principal.token_id, "token_name": principal.token_name}
    if principal.access is None:
        return facts | {"person": principal.token_name, "person_kind": f"{principal.kind}_token"}
    return facts | person_actor(principal.access)


def person_actor(access):
    return {
        "account_id": access.id,
        "person": access.email,
        "person_id": access.person_id,
        "person_kind": "member" if access.member_id else "owner",
        "impersonator": access.impersonator,
    }
