"""Who wastes GPUs: kinds of waste of jobs, and what series of metrics say of them."""
