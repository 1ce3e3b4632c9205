"""MetaSchedule traces interpreted once for all candidates: TVM's schedule primitives on columns.

``source`` decides which structure a candidate has, ``instructions`` applies a trace to a ``tree`` of loops and
blocks read by ``reading``, ``compute_at`` and ``locations`` hold what moving a block means, ``postprocs`` what
MetaSchedule's post-processors do to every candidate, and ``finish`` turns the tree into a LoopNest.
"""
