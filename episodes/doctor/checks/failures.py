"""Tasks whose environment fails, with the exceptions."""

from __future__ import annotations

from collections import Counter

from django.urls import reverse

from environments import conf
from environments.scoring.task_buckets import bucket_of
from environments.tasks.task_facts import task_names
from episodes.doctor.checks import check
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorFinding,
    Evidence,
    no_problem,
    problem,
    too_little,
)
from episodes.doctor.scope import DoctorScope
from episodes.figures.environments.failing_tasks import failing_tasks as failing_in
from episodes.figures.environments.failing_tasks import served_tasks
from episodes.figures.tasks.environment_failures import clusters_among

MAX_CLUSTERS = 3
MAX_LABEL_CHARACTERS = 100


@check("Tasks whose environment fails")
def failing_tasks(scope: DoctorScope) -> DoctorFinding:
    attempts = Counter(attempt.task for attempt in scope.attempts)
    failures = scope.failures
    if not attempts and not failures:
        return too_little("Needs an ended episode; there is none.")
    limits = conf.thresholds()
    failing = (
        failing_in(scope.filter.viewer, scope.environment).ids
        if scope.is_whole_environment
        else served_tasks(
            task
            for task, causes in failures.items()
            if bucket_of(attempts[task], len(causes), 0.0, limits) == "failing"
        )
    )
    if not failing:
        count = sum(map(len, failures.values()))
        return no_problem(
            f"No task that is served fails; {count:,} episode{'' if count == 1 else 's'} ended by a failure of "
            "the environment."
        )
    causes = {pk: cause for task in failing for pk, cause in failures.get(task, {}).items()}
    clusters = clusters_among(dict(sorted(causes.items(), reverse=True)))
    evidence = []
    for cluster in clusters[:MAX_CLUSTERS]:
        exception = (cluster.exception or "No exception recorded")[:MAX_LABEL_CHARACTERS]
        count = len(cluster.episodes)
        label = f"{exception} · {count:,} episode{'' if count == 1 else 's'}"
        evidence.append(Evidence(label, reverse("episode", args=[cluster.episodes[0]])))
    names = task_names(failing[:MAX_EVIDENCE])
    evidence += [Evidence(name, reverse("task", args=[task])) for task, name in names.items()]
    sentence = f"The environment fails at {len(failing):,} task{'' if len(failing) == 1 else 's'}"
    if clusters:
        kinds = "one exception" if len(clusters) == 1 else f"{len(clusters)} different exceptions"
        count = sum(len(cluster.episodes) for cluster in clusters)
        sentence += f": {count:,} of the episodes read ended by {kinds}"
    return problem(f"{sentence}. Repair it, or quarantine the tasks.", *evidence)
