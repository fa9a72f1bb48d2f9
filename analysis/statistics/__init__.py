"""Resampling of dependent data, in pieces of bounded memory."""
