"""One cluster of GPUs: one kernel for every classic scheduling policy."""
