"""From a request to the audit log: who acted, from where, on what."""

from flask import g, request

from panel.auth import browser_session
from panel.auth.tokens import source_address
from panel.core.db import only_reads, session
from panel.services import audit


def begin():
    """From here on what the request does is gathered."""
    audit.follow()


def keep():
    """Writes down what the request did, before its transaction is committed. A program that was let in leaves an entry
    for every operation that writes; at the pages, where a refused form may look like any other answer, only what
    touched something counts."""
    if not only_reads() and not g.get("repeated"):
        audit.write(about=ids(), always="caller" in g, **who(), **where())


def refused(email):
    """Has a sign-in that was refused written down, although its request keeps nothing: for a wrong password, a wrong
    code or a passkey that is not known."""
    g.refused_sign_in = email, where()


def write_refusal():
    """Writes down the sign-in that this request refused, if it did, in a transaction of its own."""
    if refusal := g.pop("refused_sign_in", None):
        email, facts = refusal
        session.rollback()
        audit.refused_sign_in(email, **facts)
        session.commit()


def ids():
    """The ids in the address, by their names. Other parts of it are words of ours."""
    return {name: str(value) for name, value in (request.view_args or {}).items() if name.endswith("_id")}


def where():
    return {"ip": str(source_address()), "action": g.get("operation") or request.endpoint}


def who():
    """The person or token of this request."""
    if "caller" in g:
        return of_token(g.caller)
    access = browser_session.viewer()
    if access is None:
        return {"person": "nobody", "person_kind": "nobody"}
    if (request.blueprint or "").partition("_")[0] == "admin":
        return {"person": access.email, "person_id": access.person_id, "person_kind": "operator"}
    return of_person(access)


def holder(operator=False):
    """The same for what stays open after the request: it ends with the token or the browser's session. `operator`: the
    person acts as one although the page is the customers'."""
    if "caller" in g:
        return of_token(g.caller)
    access = browser_session.viewer()
    person = {"person": access.email, "person_id": access.person_id, "person_kind": "operator"} if operator else who()
    return person | {"sign_in_id": browser_session.current_user.sign_in.id}


def of_token(caller):
    facts = {"token_id": caller.token_id, "token_name": caller.token_name}
    if caller.access is None:
        return facts | {"person": caller.token_name, "person_kind": f"{caller.kind}_token"}
    return facts | of_person(caller.access)


def of_person(access):
    return {
        "account_id": access.id,
        "person": access.email,
        "person_id": access.person_id,
        "person_kind": "member" if access.member_id else "owner",
        "impersonator": access.impersonator,
    }
