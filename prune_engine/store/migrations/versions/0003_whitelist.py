"""The whitelist: what was added, checked and removed, in order. Rows are never changed or deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "whitelist_events",
        sa.Column("revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("strict_class", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("happened_at", sa.Double(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_whitelist_events")),
    )
    op.create_index(op.f("ix_whitelist_events_strict_class"), "whitelist_events", ["strict_class"])
