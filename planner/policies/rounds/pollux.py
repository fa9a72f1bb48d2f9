"""Pollux on a fixed cluster: the best allocation for its fitness every minute."""

from gpuplan.planner.policies.rounds.decided import standing_policy

POLICY = standing_policy(
    "pollux",
    "Pollux on a fixed cluster: the best allocation for its fitness every minute",
    "Qiao et al., OSDI 2021",
)
