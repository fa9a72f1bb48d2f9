"""Plans and replays of traces. Knows no terminal."""
