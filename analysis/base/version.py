"""The version of gpuplan; apart from everything else because every command needs it."""


def gpuplan_version() -> str:
    """Return the installed version of gpuplan."""
    from importlib.metadata import version  # it takes 20 ms to import, which --help can save

    return version("gpuplan")
