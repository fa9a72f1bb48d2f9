"""Studies joined into one document: a page, a comment, the JSON contract, pictures, test cases."""
