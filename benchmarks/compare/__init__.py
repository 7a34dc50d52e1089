"""The hand schedules in turns with numpy and other baselines: `python -m benchmarks.compare`.

The command starts one process for each number of threads, with the environment set and the cores
chosen before numpy is loaded. Read in this order: `work` (a workload with its arrays and expected
result), `implementation` and `baselines` (calls that compute it), `worker` (the process), `launch`
(starting it), `results` (times and ratios), `measure`, `report`, `plot`, `about`, `options`,
`__main__`.
"""
