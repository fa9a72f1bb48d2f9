"""Linear and integer programs, and who solves them."""
