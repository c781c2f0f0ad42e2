"""Sessions of consoles: rows and answers."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import ConsoleSession

PUBLIC_URL = "http://panel.example.com:8000"


def get_created_session(answer, caller="owner"):
    assert answer.status_code == 200, answer.json
    return answer.json["data"] if caller == "admin" else answer.json


def list_console_sessions():
    return session.scalars(
        select(ConsoleSession).order_by(ConsoleSession.id).execution_options(populate_existing=True)
    ).all()
