"""The command line: parse, call one library function, show. Nothing in it computes."""
