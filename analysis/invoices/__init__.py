"""Invoices of providers: their formats, and what a charge says of GPUs."""
