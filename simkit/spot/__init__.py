"""High-priority and spot tasks on one pool of GPUs: quota, placement, eviction (GFS)."""
