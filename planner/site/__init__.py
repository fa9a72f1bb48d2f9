"""A site of one's own: whether a model of it may speak."""
