"""Two JSON outputs compared: what was asked, what came out, and gates on the changes."""
