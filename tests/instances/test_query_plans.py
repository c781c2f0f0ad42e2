"""The queries of pages read few rows, however many instances there are. SQLite's plans stand for both databases."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance
from panel.services import instances, overview
from panel.services.instances.search import build_conditions


@pytest.fixture
def explain(rolled_back_app):
    """Return a function that returns the query plan of a statement as one text."""
    if session.get_bind().dialect.name != "sqlite":
        pytest.skip("the text of the query plan is specific to SQLite")

    def explain_statement(statement, index):
        """Explain the statement with this index of instances. SQLite refuses one whose condition is another."""
        compiled = statement.compile(
            session.get_bind(), compile_kwargs={"literal_binds": True, "render_postcompile": True}
        )
        sql = str(compiled).replace("FROM instances", f"FROM instances INDEXED BY {index}", 1)
        return "\n".join(row[-1] for row in session.connection().exec_driver_sql(f"explain query plan {sql}"))

    return explain_statement


def test_attention_can_use_partial_index(explain, cast):
    """The navigation counts these instances on every page."""
    query = instances.select_with_problems(cast.owner).with_only_columns(Instance.id).order_by(None)
    plan = explain(query, index="ix_instances_with_problems")
    assert "USING INDEX ix_instances_with_problems (account_id=?)" in plan, plan
    query = overview.select_missing_instances().with_only_columns(Instance.id).order_by(None)
    assert "ix_instances_with_problems" in explain(query, index="ix_instances_with_problems")


def test_word_that_begins_no_address_is_not_searched_in_addresses(rolled_back_app):
    def build_statement(text):
        return str(select(Instance.id).where(*build_conditions(text)))

    assert "addresses" not in build_statement("machine")
    assert all("addresses" in build_statement(text) for text in ("99", "10.0.", "FD99::"))
