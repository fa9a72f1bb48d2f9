"""Tables for people, by subject."""
