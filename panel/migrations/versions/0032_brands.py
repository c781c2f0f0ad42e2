"""Brands with their images, texts of mails that operators have written, the brand of an account, the host of a passkey."""

import sqlalchemy as sa
from alembic import op

revision = "0032_brands"
down_revision = "0031_mass_mails"


def upgrade():
    op.create_table(
        "brands",
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("is_default", sa.Boolean(), nullable=True),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("accent", sa.String(length=7), nullable=True),
        sa.Column("logo", sa.String(length=64), nullable=True),
        sa.Column("favicon", sa.String(length=64), nullable=True),
        sa.Column("sign_in_text", sa.Text(), nullable=False),
        sa.Column("support_url", sa.String(length=500), nullable=True),
        sa.Column("terms_url", sa.String(length=500), nullable=True),
        sa.Column("privacy_url", sa.String(length=500), nullable=True),
        sa.Column("imprint_url", sa.String(length=500), nullable=True),
        sa.Column("sender_name", sa.String(length=64), nullable=True),
        sa.Column("sender_address", sa.String(length=255), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_brands")),
        sa.UniqueConstraint("host", name=op.f("uq_brands_host")),
        sa.UniqueConstraint("is_default", name=op.f("uq_brands_is_default")),
    )
    op.create_table(
        "brand_images",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("media_type", sa.String(length=32), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_brand_images")),
    )
    op.create_table(
        "mail_templates",
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("language", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mail_templates")),
    )
    op.create_index("ix_mail_templates_kind_language", "mail_templates", ["kind", "language"], unique=True)
    with op.batch_alter_table("accounts") as batch_op:
        batch_op.add_column(sa.Column("brand_id", sa.String(length=36), nullable=True))
        batch_op.create_index(batch_op.f("ix_accounts_brand_id"), ["brand_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_accounts_brand_id_brands"), "brands", ["brand_id"], ["id"], ondelete="set null"
        )
    with op.batch_alter_table("passkeys") as batch_op:
        batch_op.add_column(sa.Column("host", sa.String(length=255), nullable=True))


def downgrade():
    with op.batch_alter_table("passkeys") as batch_op:
        batch_op.drop_column("host")
    with op.batch_alter_table("accounts") as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_accounts_brand_id_brands"), type_="foreignkey")
        batch_op.drop_index(batch_op.f("ix_accounts_brand_id"))
        batch_op.drop_column("brand_id")
    op.drop_index("ix_mail_templates_kind_language", table_name="mail_templates")
    op.drop_table("mail_templates")
    op.drop_table("brand_images")
    op.drop_table("brands")
