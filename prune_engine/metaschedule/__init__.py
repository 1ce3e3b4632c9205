"""The adapter to TVM's MetaSchedule, the only importer of tvm."""
