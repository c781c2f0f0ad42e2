"""Keys of the sandbox API, whose requests may have idempotency keys as those of tokens have."""

import sqlalchemy as sa
from alembic import op

revision = "0002_microvm_api_keys"
down_revision = "0001_initial"


def upgrade():
    op.create_table(
        "microvm_api_keys",
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("prefix", sa.String(length=12), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_ip", sa.String(length=45), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_microvm_api_keys_account_id_accounts"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvm_api_keys")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_microvm_api_keys_secret_hash")),
    )
    op.create_index(op.f("ix_microvm_api_keys_account_id"), "microvm_api_keys", ["account_id"], unique=False)
    with op.batch_alter_table("idempotency_keys") as batch:
        batch.drop_constraint(op.f("fk_idempotency_keys_token_id_tokens"), type_="foreignkey")


def downgrade():
    op.execute("delete from idempotency_keys where token_id not in (select id from tokens)")
    with op.batch_alter_table("idempotency_keys") as batch:
        batch.create_foreign_key(
            op.f("fk_idempotency_keys_token_id_tokens"), "tokens", ["token_id"], ["id"], ondelete="cascade"
        )
    op.drop_table("microvm_api_keys")
