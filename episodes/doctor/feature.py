"""What the reward doctor adds to the site."""

from environments.features import Feature, PageLink

FEATURE = Feature(
    urls="episodes.doctor.urls",
    environment_pages=[PageLink("Reward doctor", "doctor", is_part_of_run=True)],
    run_verdicts="episodes.doctor.run_verdicts.run_verdicts",
)
