"""Allpass: every job starts on serverless GPUs, long ones move on to rented workers."""
