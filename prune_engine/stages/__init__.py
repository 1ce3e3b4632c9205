"""What the stages of the pipeline are made of: masks, the draft list, scores, and what is chosen.

`prune_engine.pipeline` puts them together. Batch in, array out; nothing here knows of rounds, stores or compilers.
"""
