"""Results of several studies as one document: page, Markdown, JSON, JUnit."""
