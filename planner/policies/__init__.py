"""From a policy's settings to a run in its simulator and the results of that run."""
