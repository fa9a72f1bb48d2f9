"""Traces and prices: schema, errors, ingest and characterization. Never imports simkit."""
