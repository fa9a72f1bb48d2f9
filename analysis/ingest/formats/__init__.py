"""The supported log formats, one file each."""
