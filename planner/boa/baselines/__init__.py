"""What a plan is compared with: the same jobs under other policies, each with one knob."""
