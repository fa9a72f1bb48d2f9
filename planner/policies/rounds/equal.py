"""Equal shares of a fixed cluster, anew every minute."""

from gpuplan.planner.policies.rounds.decided import standing_policy

POLICY = standing_policy(
    "equal",
    "a fixed cluster shared equally, anew every minute",
    "Berg et al., SIGMETRICS 2018 (EQUI)",
)
