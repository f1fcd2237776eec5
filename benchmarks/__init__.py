"""Benchmarks of orsweb against the reference server. `python -m benchmarks` starts both and puts
the same load on both.

`scenarios` defines what is measured and the targets, `servers` starts the measured servers, `load`
is the process that drives them (with `client`, `agents` and `players`), and `report` prints the
results. `profile` shows where our CPU time goes.
"""
