"""The classic schedulers of one cluster: what may be set, and replays of a trace."""
