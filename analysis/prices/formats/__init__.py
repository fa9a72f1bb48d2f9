"""One module per format of price lists and histories."""
