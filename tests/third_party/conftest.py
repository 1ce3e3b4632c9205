"""Projects of outsiders: their own tests run where they are installed, not here."""

from __future__ import annotations

collect_ignore = ["prune-engine-hello"]
