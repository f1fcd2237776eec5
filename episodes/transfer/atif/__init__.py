"""Trajectories in ATIF, the Agent Trajectory Interchange Format of Harbor: writing and reading
them.

An exported episode is one trajectory: a line of a JSON Lines file (`lines.py`), or
`agent/trajectory.json` of a trial in a zip of a Harbor job (`job_archive.py`). An imported
trajectory is an episode with its tool calls as steps, and a rollout with its conversation, joined
by the id of the session.

`steps.py` and `conversation_steps.py` make the steps of a trajectory, `conversations.py` finds the
conversations that clients uploaded. `schema.py` checks trajectories of any origin, `reading.py`
reads those that this server wrote, `foreign.py` all others, `files.py` finds trajectories in files
and directories.

Source: RFC 0001 of Harbor, and the models of the package `harbor` 0.24.0.
"""
