"""A site of today: what its log says of an instant, and what follows from it."""
