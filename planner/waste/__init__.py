"""What idle GPUs cost, and what ending them would change."""
