"""A site of one's own: whether a model of it may speak, and what changes of it do to waits."""
