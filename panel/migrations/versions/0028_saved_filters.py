"""Saved filters of lists, and indexes for the orders of lists and the search for addresses."""

import sqlalchemy as sa
from alembic import op

revision = "0028_saved_filters"
down_revision = "0027_platform_load"

INDEXES = (
    ("instances", "ix_instances_account_id_display_name_id", ["account_id", "display_name", "id"]),
    ("instances", "ix_instances_display_name_id", ["display_name", "id"]),
    ("volumes", "ix_volumes_account_id_name_id", ["account_id", "name", "id"]),
    ("volumes", "ix_volumes_name_id", ["name", "id"]),
    ("accounts", "ix_accounts_last_login_at_id", ["last_login_at", "id"]),
)


def upgrade():
    op.create_table(
        "saved_filters",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("page", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("query", sa.String(length=1024), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_saved_filters_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_filters")),
    )
    op.create_index("uq_saved_filters_account_id_page_name", "saved_filters", ["account_id", "page", "name"], unique=True)
    for table, name, columns in INDEXES:
        op.create_index(name, table, columns)
    op.create_index("ix_addresses_ip", "addresses", ["ip"], postgresql_ops={"ip": "varchar_pattern_ops"})


def downgrade():
    op.drop_index("ix_addresses_ip", table_name="addresses")
    for table, name, _columns in reversed(INDEXES):
        op.drop_index(name, table_name=table)
    op.drop_table("saved_filters")
