"""Numbers, units and tables as text: terminal, Markdown, CSV, JSON."""
