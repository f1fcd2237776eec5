"""Admin pages of episodes, which are read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.access.privacy import viewer_of
from environments.admin import ChipFilter, EnvironmentFilter, ReadOnlyAdmin, RowFilter
from environments.database.folding import holding
from environments.database.storable import MAX_INDEX, id_in
from environments.display import formats, parts
from environments.filtering.addresses import id_asked, refuse_others, takes
from episodes.admin.removal import removal_view
from episodes.attempts.rule import ENDED
from episodes.browsing.task_lines import describe_tasks, name_tasks
from episodes.filtering.columns import with_list_columns
from episodes.filtering.conditions import COUNTED_CAUSES
from episodes.filtering.filters import PLAYERS
from episodes.models import Episode, Run, Step
from episodes.models.privacy import outside_hidden_parts, visible_episodes
from episodes.templatetags import record
from episodes.transcript.steps import step_json, transcript_of
from episodes.visibility import TaskGuard, content_of, is_blind_to, sentence

MAX_RUN_CHOICES = 20
MAX_RUNS_FOUND = 100
"""Latest runs whose name has the text of a search."""


class EndingFilter(ChipFilter):
    """A filter by what ended the episode, without probes unless only they are asked for."""

    title = "ending"
    parameter_name = "ending"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("running", "running"), *Episode.CAUSES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Episode]) -> QuerySet[Episode]:
        if self.value() == "running":
            return queryset.filter(status="running")
        if not self.value():
            return queryset
        # a list of one value is looked up; with both, all that ended so would be sorted
        return queryset.filter(
            ENDED, cause=self.value(), is_probe__in=[request.GET.get("probes") == "only"]
        )


class RunFilter(RowFilter):
    """A filter that offers the latest runs. The page of any other run links to its episodes."""

    title = "run"
    parameter_name = "run"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = Run.objects.seen_by(viewer_of(request.user))
        runs = list(rows.order_by("-pk").values_list("pk", "name")[:MAX_RUN_CHOICES])
        run = id_in(request.GET.get("run", ""))
        if run is not None and run not in dict(runs):
            runs += rows.filter(pk=run).values_list("pk", "name")
        return [(str(pk), name) for pk, name in runs]


class PlayerFilter(ChipFilter):
    title = "player"
    parameter_name = "player"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(PLAYERS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Episode]) -> QuerySet[Episode]:
        if not self.value():
            return queryset
        if self.value() != "agent":  # names the rows of the index
            queryset = queryset.exclude(player="agent")
        return queryset.filter(player=self.value())


class ProbeFilter(ChipFilter):
    """A filter for probes: sessions that were opened only to read tools or prompts."""

    title = "not played"
    parameter_name = "probes"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", "left out"), ("only", "alone")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Episode]) -> QuerySet[Episode]:
        if self.value() == "only":
            return queryset.filter(ENDED, cause__in=COUNTED_CAUSES, is_probe__in=[True])
        return queryset.filter(is_probe=False) if self.value() else queryset


@admin.register(Episode)
class EpisodeAdmin(ReadOnlyAdmin):
    page_template = "episodes/admin_episode.html"
    page_parameters = ("step",)
    to_environment = "environment"
    change_list_template = "episodes/admin_episodes.html"
    list_display = (
        "number",
        "ending",
        "environment",
        "task_name",
        "run",
        "who",
        "total",
        "steps",
        "time",
        "started",
    )
    list_filter = (EnvironmentFilter, EndingFilter, RunFilter, PlayerFilter, ProbeFilter)
    list_select_related = ("environment", "split", "task", "run")
    ordering = ("-pk",)
    search_fields = ("session_id",)
    search_help_text = "Episode number, session id, or part of a run's name"
    empty = (
        "No episodes yet. Every session that an agent opens is recorded here. "
        "The overview shows how to connect an agent."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Episode]:
        queryset: QuerySet[Episode] = super().get_queryset(request)
        return with_list_columns(queryset.filter(outside_hidden_parts(viewer_of(request.user))))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        describe_tasks(list(changelist.result_list))
        return changelist

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Episode], search_term: str
    ) -> tuple[QuerySet[Episode], bool]:
        """Search by equality, which indexes answer. Only the short table of runs is searched by
        part of a name.

        Runs and ids are read first: with a join, databases would walk along all episodes until a
        page is full.
        """
        term = search_term.strip()
        if not term:
            return queryset, False
        visible = Run.objects.seen_by(viewer_of(request.user))
        rows = visible.filter(holding(visible, term, ("name",))).order_by("-pk")
        runs = list(rows.values_list("pk", flat=True)[:MAX_RUNS_FOUND])
        ids = list(Episode.objects.filter(session_id=term).values_list("pk", flat=True))
        if (pk := id_in(term)) is not None:
            ids.append(pk)
        condition = Q(pk__in=ids) if ids or not runs else Q()
        if runs:
            condition |= Q(run=runs[0]) if len(runs) == 1 else Q(run__in=runs)
        return queryset.filter(condition), False

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Episode | None:
        rows = Episode.objects.seen_by(viewer_of(request.user)).select_related(
            "environment", "split__environment", "task", "run", "prompt", "tools"
        )
        episode = rows.filter(pk=id_in(object_id) or 0).first()
        if episode and episode.status == "running" and is_blind_to(request.user, episode.pk):
            return None
        return episode

    def page(self, request: HttpRequest, row: Episode) -> dict[str, Any]:
        name_tasks([row])
        return {
            "transcript": transcript_of(row, min(id_asked(request, "step") or 0, MAX_INDEX)),
            **content_of(
                parts.fields(row.task.spec),
                row.environment.name,
                TaskGuard(viewer_of(request.user)),
            ),
            "prompt": parts.prompt(row.prompt.text if row.prompt else ""),
            "tools": parts.tools(row.tools.text if row.tools else ""),
            "can_delete": row.status == "ended" and self.has_delete_permission(request),
        }

    def get_urls(self) -> list[URLPattern]:
        raw = [
            path("remove/", self.removal_view, name="episodes_episode_remove"),
            path("<id:pk>/steps/<id:index>.json", self.step_view, name="episodes_step_json"),
            path("<id:pk>/<str:name>.json", self.text_view, name="episodes_episode_json"),
        ]
        for pattern in raw:
            pattern.callback = self.admin_site.admin_view(pattern.callback)
        return [*raw, *super().get_urls()]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("episodes.delete_episode")

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        return HttpResponseRedirect(
            f"{reverse('admin:episodes_episode_remove')}?episode={object_id}"
        )

    @takes("query", "episode")
    def removal_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_delete_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            refuse_others(request, ())  # the form says which episodes are meant
        return removal_view(request, {**self.admin_site.each_context(request), "opts": self.opts})

    def step_view(self, request: HttpRequest, pk: int, index: int) -> HttpResponse:
        """Return everything that is recorded of one step, as JSON."""
        if is_blind_to(request.user, pk):
            raise Http404(sentence(pk))
        visible = visible_episodes(viewer_of(request.user), "episode__")
        steps = Step.objects.filter(visible).select_related("input_blob", "output_blob")
        return self._json(request, step_json(get_object_or_404(steps, episode=pk, index=index)))

    def text_view(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        """Return the complete prompt, tools or task of an episode, as JSON."""
        episode = self.get_object(request, str(pk))
        if episode is None or name not in ("prompt", "tools", "task"):
            raise Http404(f"There is no {name} of episode {pk}; use prompt, tools or task.")
        if name == "task":
            guard = TaskGuard(viewer_of(request.user))
            text = guard.spec(episode.task_id, episode.environment.name, episode.task.spec)
        else:
            blob = episode.prompt if name == "prompt" else episode.tools
            text = blob.text if blob else ""
        return self._json(request, text or "null")

    def _json(self, request: HttpRequest, text: str) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404("You don't have permission to view episodes.")
        return HttpResponse(text, content_type="application/json")

    @admin.display(description="episode")
    def number(self, episode: Episode) -> str:
        return f"#{episode.pk}"

    @admin.display(description="ending")
    def ending(self, episode: Episode) -> SafeString:
        return record.ending(episode)

    @admin.display(description="task")
    def task_name(self, episode: Episode) -> SafeString:
        name, words = episode.task_name, episode.task_words
        return format_html(
            '<span title="{}"><b class="task-place">{}</b> {}</span>', words, name, words
        )

    @admin.display(description="player")
    def who(self, episode: Episode) -> SafeString:
        return record.player(episode)

    @admin.display(description="return (sum)")
    def total(self, episode: Episode) -> SafeString:
        return record.marked_return(episode, episode.returns["sum"])

    @admin.display(description="steps (refused)")
    def steps(self, episode: Episode) -> SafeString:
        return record.steps(episode)

    @admin.display(description="duration")
    def time(self, episode: Episode) -> str:
        return formats.seconds(episode.duration_seconds)

    @admin.display(description="started")
    def started(self, episode: Episode) -> SafeString:
        return formats.moment(episode.created)
