"""The simulator of policies that share a cluster anew in every round."""
