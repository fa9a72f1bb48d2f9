"""Plans from traces: speedups, exact budget frontiers, threshold sweeps and replays."""
