"""The demo (`make demo`): define, schedule step by step, build, run, search; checked and timed.

Read in this order: `dense` (a definition; its hand schedule is in `tutorials.schedules`), `story`
(a schedule step by step), `tuned` (schedules that searches found, recorded and now, in turns with
hand schedules and baselines), `__main__` (all of it in a row).
"""
