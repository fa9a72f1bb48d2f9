"""Rows of Slurm's accounting, given by their differences."""

HEADER = "JobID|User|State|Submit|Start|End|Elapsed|NNodes|AllocTRES"
DEFAULTS = {
    "JobID": "1",
    "User": "ada",
    "State": "COMPLETED",
    "Submit": "2026-01-10T08:00:00",
    "Start": "2026-01-10T08:00:10",
    "End": "2026-01-10T08:01:10",
    "Elapsed": "00:01:00",
    "NNodes": "1",
    "AllocTRES": "cpu=8,gres/gpu=4,node=1",
}


def log(*rows, header=HEADER):
    """Return a log of rows that differ from a plain one in the given fields."""
    names = header.split("|")
    lines = ["|".join({**DEFAULTS, **row}.get(name, "") for name in names) for row in rows]
    return "\n".join([header, *lines]) + "\n"


def notes(result):
    """Return the notes that count something: what -> how often."""
    return dict(note.rpartition(": ")[::2] for note in result.provenance.notes if ": " in note)


def at(hour, minute=0):
    """Return an instant of the day of the logs."""
    return f"2026-01-10T{hour:02}:{minute:02}:00"


def run(hour, state, **change):
    """Return the fields of a run of 10 minutes that is submitted at an hour."""
    return {
        "Submit": at(hour),
        "Start": at(hour, 5),
        "End": at(hour, 15),
        "Elapsed": "10:00",
        "State": state,
        **change,
    }
