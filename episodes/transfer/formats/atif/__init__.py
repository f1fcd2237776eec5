"""Trajectories in ATIF, the Agent Trajectory Interchange Format of Harbor: writing and reading
them.

An exported episode is one trajectory: a line of a JSON Lines file (`trajectory_lines.py`), or
`agent/trajectory.json` of a trial in a zip of a Harbor job (`job_archive.py`). An imported
trajectory is an episode with its tool calls as steps, and a rollout with its conversation, joined
by the id of the session.

`steps.py` and `conversation_steps.py` make the steps of a trajectory. `schema.py` checks
trajectories of any origin, `reading.py` reads those that this server wrote, `foreign.py` all
others, `import_files.py` finds trajectories in files and directories.

Source: RFC 0001 of Harbor, and the models of the package `harbor` 0.24.0.
"""

from episodes.transfer.formats import ExportFormat, ExportLink
from episodes.transfer.formats.atif.job_archive import job_archive
from episodes.transfer.formats.atif.trajectory_lines import trajectory_lines

FORMATS = [
    ExportFormat(
        name="atif",
        label="ATIF",
        position=6,
        media_type="application/jsonl",
        extension="atif.jsonl",
        pieces=trajectory_lines,
        links=[ExportLink("ATIF", "one trajectory per line; can be imported again")],
        is_importable=True,
    ),
    ExportFormat(
        name="harbor",
        label="Harbor",
        position=7,
        media_type="application/zip",
        extension="harbor.zip",
        pieces=job_archive,
        links=[ExportLink("Harbor job", "zip of trajectories for Harbor's viewer")],
        is_importable=True,
    ),
]
