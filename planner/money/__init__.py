"""What GPUs cost: the price book, the bill, and the prices a replay pays."""
