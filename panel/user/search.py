"""Finding: the command palette, and the same as a page."""

from flask import Blueprint, request, url_for

from panel.auth.browser import may, page_can, viewer
from panel.db import session
from panel.htmx import render
from panel.services import instances, ssh_keys

bp = Blueprint("search", __name__)
MOST = 8
ACTIONS = (
    ("Create instance", "plus", "instances.new", "instances:write"),
    ("Add SSH key", "key", "ssh_keys.new", "ssh_keys:write"),
    ("Generate SSH key", "wand", "ssh_keys.new_pair", "ssh_keys:write"),
)


@bp.get("/search")
@page_can("instances:read")
def show():
    words = request.args.get("q", "").strip()[:255]
    return render("user/search/show.html", "found", words=words, groups=list(groups(words)))


def groups(words):
    """What was found: for each kind its rows of drawing, name, what stands beside it, address. The frame adds the pages
    that match: it knows both sides of the panel."""
    if words:
        found = session.scalars(instances.listing(viewer(), search=words).limit(MOST)).unique()
        yield "Instances", [machine(each) for each in found]
        keys = session.scalars(ssh_keys.listing(viewer(), search=words).limit(MOST))
        yield "SSH keys", [("key", key.name, key.fingerprint, url_for("ssh_keys.index")) for key in keys]
    yield "Actions", [row for row in rows(ACTIONS) if words.lower() in row[1].lower()]


def machine(instance):
    under = " · ".join(text for text in (instance.hostname, instance.ipv4, instance.state) if text)
    return "server", instance.display_name, under, url_for("instances.show", instance_id=instance.id)


def rows(actions):
    for label, symbol, endpoint, permission in actions:
        if may(permission):
            yield symbol, label, "", url_for(endpoint)
