"""Replays of jobs under the quotas of a site of Kueue or KAI."""
