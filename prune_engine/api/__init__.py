"""What `import prune_engine` offers to programs: the verbs as functions, and ask and tell."""
