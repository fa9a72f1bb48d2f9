"""What a command answers, as JSON has it."""

import json


def document(gpuplan, command, *words, code=0):
    """Return the document of a command; of one that ends with another exit code its message."""
    exit_code, out, err = gpuplan(command, *words, "--output-format", "json")
    assert exit_code == code, err
    return json.loads(out) if code == 0 else err


def command_results(gpuplan, command, *words, code=0):
    """Return the results of a command; of one that ends with another exit code its message."""
    answer = document(gpuplan, command, *words, code=code)
    return answer["results"] if code == 0 else answer


def billed(gpuplan, *words, code=0):
    """Return the results of a bill, as `command_results`."""
    return command_results(gpuplan, "bill", *words, code=code)


def lines(month, column="effective_usd"):
    """Return the dollars of each line of the invoice of a month, by kind and name."""
    return {f"{row['kind']}|{row['name']}": row[column] for row in month["lines"] if row[column]}
