"""Copies of backups in a second destination."""

import sqlalchemy as sa
from alembic import op

revision = "0024_backup_copies"
down_revision = "0023_backup_jobs"

TABLE = "backup_copies"
REPOSITORY_INDEX = "uq_backup_repositories_destination_id_account_id"
COPY_INDEX = "uq_backup_repositories_copy_of_id_destination_id"
COPY_TO_KEY = "fk_backup_destinations_copy_to_id_backup_destinations"


def make_foreign_key(column, target):
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=op.f(f"fk_{TABLE}_{column}_{target}"))


def upgrade():
    with op.batch_alter_table("backup_destinations") as table:
        table.add_column(sa.Column("copy_to_id", sa.String(36), nullable=True))
        table.add_column(sa.Column("copy_retention_days", sa.Integer(), nullable=False, server_default="30"))
        table.create_foreign_key(op.f(COPY_TO_KEY), "backup_destinations", ["copy_to_id"], ["id"])
    with op.batch_alter_table("backup_destinations") as table:
        table.alter_column("copy_retention_days", server_default=None)
    op.create_index("ix_backup_destinations_copy_to_id", "backup_destinations", ["copy_to_id"])
    with op.batch_alter_table("backup_repositories") as table:
        table.add_column(sa.Column("copy_of_id", sa.String(36), nullable=True))
    op.drop_index(REPOSITORY_INDEX, "backup_repositories")
    is_no_copy = sa.text("copy_of_id is null")
    conditions = {"sqlite_where": is_no_copy, "postgresql_where": is_no_copy}
    columns = ["destination_id", "account_id"]
    op.create_index(REPOSITORY_INDEX, "backup_repositories", columns, unique=True, **conditions)
    op.create_index(COPY_INDEX, "backup_repositories", ["copy_of_id", "destination_id"], unique=True)
    create_copies()


def create_copies():
    op.create_table(
        TABLE,
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Column("backup_id", sa.String(36), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("destination_id", sa.String(36), nullable=False),
        sa.Column("backup_name", sa.String(255), nullable=False),
        sa.Column("backup_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("backup_values", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("retention_days", sa.Integer(), nullable=False),
        sa.Column("retained_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_locked", sa.Boolean(), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("missing_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        make_foreign_key("account_id", "accounts"),
        make_foreign_key("repository_id", "backup_repositories"),
        make_foreign_key("destination_id", "backup_destinations"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{TABLE}")),
    )
    op.create_index(f"uq_{TABLE}_backup_id_destination_id", TABLE, ["backup_id", "destination_id"], unique=True)
    for columns in (["repository_id"], ["status", "id"], ["destination_id", "id"], ["account_id", "id"]):
        op.create_index(f"ix_{TABLE}_{'_'.join(columns)}", TABLE, columns)


def downgrade():
    op.drop_table(TABLE)
    op.execute("delete from backup_repositories where copy_of_id is not null")
    op.drop_index(COPY_INDEX, "backup_repositories")
    op.drop_index(REPOSITORY_INDEX, "backup_repositories")
    with op.batch_alter_table("backup_repositories") as table:
        table.drop_column("copy_of_id")
    op.create_index(REPOSITORY_INDEX, "backup_repositories", ["destination_id", "account_id"], unique=True)
    op.drop_index("ix_backup_destinations_copy_to_id", "backup_destinations")
    with op.batch_alter_table("backup_destinations") as table:
        table.drop_constraint(op.f(COPY_TO_KEY), type_="foreignkey")
        table.drop_column("copy_retention_days")
        table.drop_column("copy_to_id")
