"""What JSON has of the commands that are no studies of the library."""
