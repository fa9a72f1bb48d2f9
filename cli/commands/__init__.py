"""The commands, one file each; heavy packages are imported inside the command that uses them."""
