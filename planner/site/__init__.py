"""What a change of a site does to waits: pairs of replays under the same chance."""
