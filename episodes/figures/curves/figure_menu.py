"""The figures that charts can draw: their names in addresses, titles, units, and what to say where
there are none."""

from __future__ import annotations

from typing import Literal, get_args

from episodes.figures.block_queries import Axis

Figure = Literal[
    "return", "success", "length", "errors", "refused", "tokens", "components", "deviation", "flat"
]
FIGURES: tuple[Figure, ...] = get_args(Figure)
"""Names in addresses, in the order of the menu."""
COMMON: tuple[Figure, ...] = ("return", "success", "length")
SCALAR = "scalar."
"""Start of the name in addresses of a number that trainers report, which is drawn beside these."""
TITLES: dict[Figure, str] = {
    "return": "Return",
    "success": "Success",
    "length": "Length",
    "errors": "Tool errors",
    "refused": "Refused calls",
    "tokens": "Tokens",
    "components": "Components",
    "deviation": "Group deviation",
    "flat": "Flat groups",
}
UNITS: dict[Figure, str] = {
    "return": "return",
    "success": "success rate",
    "length": "steps of an episode",
    "errors": "tool errors of an episode",
    "refused": "refused calls of an episode",
    "tokens": "output tokens of an episode",
    "components": "components of the reward",
    "deviation": "standard deviation within groups",
    "flat": "share of flat groups",
}
AXIS_TITLES: dict[Axis, str] = {
    "episode": "Episodes",
    "time": "Time (UTC)",
    "step": "Training step",
}
BANDS: dict[Figure, str] = {
    "return": "Band of the return: 10th to 90th percentile.",
    "success": "Band of the success rate: 95% interval.",
    "length": "Band of the steps: 10th to 90th percentile.",
    "components": "Band of a component: its mean ± 2 standard errors, wide where few report it.",
}
"""What the bands of a figure are; the others have none."""
EXTREMES: dict[Figure, str] = {
    "return": "Light band of the return: lowest and highest attempt.",
    "length": "Light band of the steps: shortest and longest attempt.",
}
"""What the light bands of a figure are; the others have none."""
EXTREMES_OF_RUNS = "Light bands: lowest and highest run of a group."
BAND_OF_RUNS = "Lines and bands: mean and standard deviation over the runs of a group."
PHASES = "Dashed: where the return, success or length begins to differ by more than its noise."
BY_DEFINITION = ("return", "components", "deviation")
"""Figures whose unit is the return, so their axis names its definition."""
OF_GROUPS = ("deviation", "flat")
"""Figures of groups, which runs have over training steps."""
OWN_COLUMNS = ("errors", "refused", "tokens", *OF_GROUPS)
"""Figures that have a column in the table below the charts only while they are drawn."""
OF_REPORTS = ("components", "tokens")
"""Figures of the attempts for which somebody has reported them."""
REPORTED_COMPONENTS = "A component's mean is over the attempts that report it."
NO_COMPONENTS = (
    'These episodes report no components. An environment does with metadata["reward_components"] = '
    "{name: number} in "
    "the output of a tool."
)
NO_SCALARS = "Scalars are drawn of runs over training steps: choose a run and this axis."
NO_TOKENS = (
    "No client has reported tokens of these episodes. Clients upload them with conversations, "
    "usually as the usage "
    "that the model's API returns."
)
NO_GROUPS = (
    "Groups are counted along the training steps of a run: choose a run and the axis Training "
    "step. A group is "
    "all episodes at one task in one step, and flat if their returns are equal. Filters that can "
    "leave out some of "
    "these episodes, such as a model, have no groups."
)
