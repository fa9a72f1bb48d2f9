"""GPUs shared by inference and training: placement, vertical and horizontal scaling (Dilu)."""
