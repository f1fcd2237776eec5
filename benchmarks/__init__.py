"""Benchmarks of orsweb against the reference server. `python -m benchmarks` starts both and puts
the same load on both.

`scenarios` has the loads that are compared, with their targets; `streams`, `lag`, `viewers`,
`restart`, `processes` and `dashboard` are a scenario each of our server only. `servers` starts the
servers, `load` is the process that drives them (with `client` and `agents`), and
`report` prints the results. `mass` counts how much code there is.
"""
