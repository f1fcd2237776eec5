"""How fast orsweb is beside the reference server: `python -m benchmarks` starts both afresh and loads both alike.

`scenarios` says what is measured and which target it must meet, `servers` starts what is measured, `load` is the
process that drives it (`client` and `agents` are its parts), `report` prints. `profile` shows where our time goes.
"""
