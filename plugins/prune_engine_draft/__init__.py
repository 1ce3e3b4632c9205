"""The draft: latency from symbols and the hardware profile, without samples."""

from __future__ import annotations
