"""The application: entry point, command loading, messages, progress."""
