"""The parts of a replay besides its steps, each as large as the first load of the page can take.

What is left out has a link: the whole prompt, the task and the tools as JSON, all notes, the page
of the task.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from environments.access.permissions import SEE_INCIDENTS, may_open_admin
from environments.access.privacy import viewer_of
from environments.display import parts
from environments.display.parts import ToolPart
from environments.models import TaskFlag
from environments.tasks.flags import flags_of
from episodes.attempts.components import MAX_COMPONENTS
from episodes.attempts.rule import FAILURES
from episodes.models import Episode, EpisodeComponent, Incident, Note
from episodes.transcript.cards import message_cards
from episodes.transcript.first_load_budget import PageBudget, size_of
from episodes.transcript.notes import notes_of
from episodes.visibility import TaskGuard, content_of

MAX_SHOWN_CHARACTERS = 4_000
"""Number of characters of a text of the task that the page shows."""
PROMPT_BYTES, TASK_BYTES, HIDDEN_BYTES, TOOLS_BYTES = 24_000, 12_000, 8_000, 20_000
NOTES_BYTES, FLAGS_BYTES, REDACTIONS_BYTES = 10_000, 6_000, 6_000
LABELS_BYTES, COMPONENTS_BYTES = 4_000, 8_000
EXCEPTIONS_BYTES, MAX_EXCEPTIONS = 16_000, 10
_FRAME_BYTES = 1_000
"""Size of the HTML around a note or a flag, with the form that deletes it."""


def prompt_of(episode: Episode, budget: PageBudget | None = None) -> dict[str, Any]:
    """Return the template variables of the prompt; without a budget it is whole."""
    prompt, rest = parts.prompt(episode.prompt.text if episode.prompt else ""), 0
    if budget:
        cards, rest = budget.cards(prompt, "prompt", PROMPT_BYTES)
    else:
        cards = message_cards(prompt, "prompt")
    is_long = len(cards) > 2 or any(card.is_long or card.html.count("\n") > 8 for card in cards)
    return {"prompt": cards, "prompt_left": rest, "is_prompt_long": is_long}


def side_of(
    request: HttpRequest, episode: Episode, definition: str, budget: PageBudget
) -> dict[str, Any]:
    """Return the template variables of the column next to the transcript, and of the notices above
    it."""
    notes, notes_left = budget.fitting(notes_of(episode), _note_bytes, NOTES_BYTES)
    flags, flags_left = budget.fitting(flags_of(episode.task).open, _note_bytes, FLAGS_BYTES)
    labels, labels_left = budget.fitting(
        episode.labels_object.items(),
        lambda label: 50 + size_of(label[0]) + size_of(str(label[1])),
        LABELS_BYTES,
    )
    redactions, redactions_left = budget.fitting(
        [row.redaction for row in episode.redactions.select_related("redaction").order_by("pk")],
        lambda redaction: 300 + size_of(redaction.author) + size_of(redaction.reason),
        REDACTIONS_BYTES,
    )
    return {
        **_tools(episode, budget),
        **_content(request, episode, budget),
        "exceptions": _exceptions(request, episode, budget),
        "components": _components(episode, definition, budget),
        "notes": notes,
        "notes_left": len(notes_left),
        "flags": flags,
        "flags_left": len(flags_left),
        "labels": labels,
        "labels_left": len(labels_left),
        "redactions": redactions,
        "redactions_left": len(redactions_left),
    }


def _tools(episode: Episode, budget: PageBudget) -> dict[str, Any]:
    tools = parts.tools(episode.tools.text if episode.tools else "")
    pages = [SafeString()]

    def rendered_bytes(tool: ToolPart) -> int:
        pages.append(render_to_string("environments/tools.html", {"tools": [tool]}))
        return size_of(pages[-1])

    fitting, rest = budget.fitting(tools, rendered_bytes, TOOLS_BYTES)
    return {"tools": SafeString("".join(pages[: 1 + len(fitting)])), "tools_left": len(rest)}


def _content(request: HttpRequest, episode: Episode, budget: PageBudget) -> dict[str, Any]:
    """Return the task as template variables, as far as the reader may see it and it fits."""
    guard = TaskGuard(viewer_of(request.user))
    fields = parts.fields(episode.task.spec, MAX_SHOWN_CHARACTERS)
    content = content_of(fields, episode.environment.name, guard)
    spec, spec_rest = budget.cards(content["spec"], "spec", TASK_BYTES)
    secrets, secrets_rest = budget.cards(content["hidden"], "spec", HIDDEN_BYTES)
    return {
        **content,
        "spec": spec,
        "hidden": secrets,
        "fields_left": spec_rest + secrets_rest,
        "content_hash": guard.hash(episode.task.content_hash),
    }


def _exceptions(request: HttpRequest, episode: Episode, budget: PageBudget) -> list[Incident]:
    """Return the exceptions of the environment's code in the episode, for those who may see
    incidents."""
    person = request.user
    may_see = may_open_admin(person) and person.has_perm(SEE_INCIDENTS)
    if not may_see or viewer_of(person).hides_anything:
        return []
    if episode.status == "ended" and not (episode.failed_count or episode.cause in FAILURES):
        return []
    here = Q(episode=episode.pk) | Q(others__regex=rf"(^|\n)episode {episode.pk}(,|\n|$)")
    rows = Incident.objects.filter(here, environment=episode.environment_id, kind="code")
    newest = rows.order_by("-pk")[:MAX_EXCEPTIONS]
    return budget.fitting(newest, lambda row: 400 + size_of(row.trace), EXCEPTIONS_BYTES)[0]


def _components(episode: Episode, definition: str, budget: PageBudget) -> list[tuple[str, float]]:
    """Return the components of the whole episode by name; empty until the follower has computed
    them."""
    rows = EpisodeComponent.objects.filter(episode=episode).order_by("pk")
    values = rows.values_list("component__name", f"value_{definition}")[:MAX_COMPONENTS]
    return budget.fitting(values, lambda pair: 400 + 2 * size_of(pair[0]), COMPONENTS_BYTES)[0]


def _note_bytes(note: Note | TaskFlag) -> int:
    return _FRAME_BYTES + size_of(note.text if isinstance(note, Note) else note.note)
