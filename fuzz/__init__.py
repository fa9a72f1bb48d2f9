"""Mutation fuzzing of the command line: ``make fuzz``; docs/reliability.md says what it covers."""
