"""The first page: is everything well, what is being done, what happened last."""

from flask import Blueprint

from panel.auth.browser import page_can, viewer
from panel.db import session
from panel.htmx import render
from panel.schemas.words import STATES
from panel.services import events, instances
from panel.user.activity import told
from panel.user.tasks import latest

bp = Blueprint("overview", __name__)
RECENT = 6


@bp.get("/")
@page_can("instances:read")
def show():
    account = viewer()
    counted = {state: (count, price) for state, count, price in session.execute(instances.by_state(account))}
    recent = session.scalars(instances.listing(account).limit(RECENT)).unique().all()
    return render(
        "user/overview/show.html",
        "live",
        states=[(state, counted[state][0]) for state in STATES if state in counted],
        total=sum(count for count, _ in counted.values()),
        price=sum(price for _, price in counted.values()),
        recent=recent,
        ailing=session.scalars(instances.ailing(account).limit(RECENT)).unique().all(),
        work=latest(account),
        lines=told(session.scalars(events.listing(account).limit(RECENT)).all()),
    )
