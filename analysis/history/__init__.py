"""When jobs run and hold GPUs."""
