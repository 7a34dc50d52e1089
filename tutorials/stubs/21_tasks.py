"""Tasks of lesson 21: fill in the functions, and run `minitensor course check 21`."""

import json


def best(lines, workload):
    """Return the place of the best record of a workload, counted from 0; None if there is none.

    `lines` are the lines of a log. A record is a JSON object with "v": 1 and the fields "workload"
    (a text), "status" (a text), "seconds" (a list of numbers) and "trace" (a text). Any other line
    is to be skipped: a damaged one, one of another version, one that is JSON and no object. Only
    records of this workload with the status "ok" count, and only if all their times are finite and
    above 0, and there is one. The best has the least median; of equal ones any will do.
    """
    raise NotImplementedError


def resume(lines, workload, trials):
    """Return (left, known): the trials that are left, and what is known of a workload.

    `known` is a dictionary from traces to seconds: the median of a record's times, or float("inf")
    for one with another status than "ok". Of a trace with several records it has the least. A
    search of `trials` trials has as many left as there are no known traces for, and never fewer
    than 0. Lines are as in `best`, but here every record of the workload has usable times if its
    status is "ok".
    """
    raise NotImplementedError


def curve(seconds):
    """Return a list: the least time so far, after each trial.

    `seconds` are times in the order of the trials. None and NaN are failures, and count for
    nothing. Before the first success the least time is float("inf").
    """
    raise NotImplementedError
