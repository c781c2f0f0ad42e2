"""The audit entry of a request: who acted, from where, on what."""

from flask import g, request

from panel.auth import browser_session
from panel.auth.tokens import get_source_address
from panel.core.db import is_read_only_request
from panel.services import audit


def start_tracking():
    """Start to track the changes of this request."""
    audit.start_tracking()


def write_entry():
    """Write the audit entry of a writing request, before its transaction commits. API calls always get an entry; page
    requests only when they changed something, because a refused form may have the same status as a successful one."""
    if not is_read_only_request() and not g.get("repeated"):
        audit.write(address_ids=find_address_ids(), always="caller" in g, **describe_actor(), **collect_request_facts())


def log_failed_sign_in(email):
    """Record a failed sign-in (wrong password or code, unknown passkey) to be logged after the request's rollback."""
    g.refused_sign_in = email, collect_request_facts()


def has_failed_sign_in():
    return "refused_sign_in" in g


def write_failed_sign_in():
    """Write the failed sign-in of this request, in a transaction of its own."""
    email, facts = g.pop("refused_sign_in")
    audit.add_failed_sign_in(email, **facts)


def find_address_ids():
    """Return the ids in the path by parameter name."""
    return {name: str(value) for name, value in (request.view_args or {}).items() if name.endswith("_id")}


def collect_request_facts():
    return {"ip": str(get_source_address()), "action": g.get("operation") or request.endpoint}


def describe_actor():
    """Return the person or token of this request, as fields of an audit entry."""
    if "caller" in g:
        return describe_token_actor(g.caller)
    access = browser_session.get_current_access()
    if access is None:
        return {"person": "nobody", "person_kind": "nobody"}
    if (request.blueprint or "").partition("_")[0] == "admin":
        return {"person": access.email, "person_id": access.person_id, "person_kind": "operator"}
    return describe_person_actor(access)


def describe_session_owner(by_operator=False):
    """Return the same for a console, which outlives the request and ends with its token or browser session.
    `by_operator`: the person acts as an operator on a page of the customer area."""
    if "caller" in g:
        return describe_token_actor(g.caller)
    access = browser_session.get_current_access()
    person = (
        {"person": access.email, "person_id": access.person_id, "person_kind": "operator"}
        if by_operator
        else describe_actor()
    )
    return person | {"sign_in_id": browser_session.current_user.sign_in.id}


def describe_token_actor(principal):
    facts = {"token_id": principal.token_id, "token_name": principal.token_name}
    if principal.access is None:
        return facts | {"person": principal.token_name, "person_kind": f"{principal.kind}_token"}
    return facts | describe_person_actor(principal.access)


def describe_person_actor(access):
    return {
        "account_id": access.id,
        "person": access.email,
        "person_id": access.person_id,
        "person_kind": "member" if access.member_id else "owner",
        "impersonator": access.impersonator,
    }
