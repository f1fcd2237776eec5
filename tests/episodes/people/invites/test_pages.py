"""Invites: creating, listing and revoking them, and becoming a guest."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from environments.models import Environment
from episodes.models import Guest, Invite, Play
from episodes.people.invites.rule import save_invite
from tests.people import client_of, member
from tests.rows import each
from tests.stored import make_environment, make_episode, make_split, make_task

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def form(**changes: Any) -> dict[str, Any]:
    """Return the form of an invite for the environment `math`."""
    return {
        "place": str(make_environment().pk),
        "name": "pilot",
        "lasts": "7",
        "unit": "days",
        **changes,
    }


def make_link(lasts: timedelta = DAY, **values: Any) -> str:
    """Return the path of a new invite's link."""
    invite = Invite(
        **{"name": "pilot", "environment": make_environment(), "author": "ada", **values}
    )
    return f"/play/invite/{save_invite(invite, lasts)}/"


@pytest.fixture
def stranger(settings: Any) -> Client:
    """A visitor of a server with keys."""
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}
    return Client()


def test_a_link_is_shown_once_and_stored_as_its_hash(client: Client) -> None:
    answer = client.post("/play/invites/", form())
    [token] = re.findall(r"http://testserver/play/invite/([\w-]{43})/", answer.content.decode())
    assert (answer.status_code, token in Invite.objects.get().token_hash) == (201, False)
    assert token not in client.get("/play/invites/").content.decode()
    assert client.get(f"/play/invite/{token}/").status_code == 200


def test_the_form_sets_split_time_and_blindness(client: Client) -> None:
    split = make_split(make_task())
    place = f"{split.environment_id}/{split.pk}"
    client.post("/play/invites/", form(place=place, lasts="3", unit="hours", is_blind="on"))
    invite = Invite.objects.get()
    assert (invite.split, invite.is_blind) == (split, True)
    assert timedelta(hours=2) < invite.expires - timezone.now() <= timedelta(hours=3)


@each(
    ("changes", "told"),
    [
        ({"name": ""}, "required"),
        ({"place": "999"}, "This choice doesn&#x27;t exist"),
        ({"lasts": "0"}, "greater than or equal to 1"),
        ({"lasts": "366"}, "at most 365 days"),
        ({"lasts": "9" * 400}, "at most 365 days"),
        ({"unit": "years"}, "not one of the available choices"),
    ],
)
def test_a_faulty_form_shows_errors_at_its_fields(
    client: Client, changes: dict[str, str], told: str
) -> None:
    answer = client.post("/play/invites/", form(**changes))
    assert answer.status_code == 422 and told in answer.content.decode()
    assert not Invite.objects.exists()


@each("place", ["zzz", "999", "1/999"])
def test_a_place_that_the_form_does_not_offer_is_refused(client: Client, place: str) -> None:
    answer = client.get("/play/invites/", {"place": place})
    assert (answer.status_code, "the form offers no such" in answer.content.decode()) == (400, True)


def test_only_who_sees_a_private_environment_invites_to_it() -> None:
    environment = make_environment(is_private=True)
    inviter, stranger = client_of("operator"), client_of("player", name="eve")
    eve = User.objects.get(username="eve")
    eve.user_permissions.add(Permission.objects.get(codename="add_invite"))
    assert (
        stranger.post("/play/invites/", form()).status_code == 422
        and "math" not in stranger.get("/play/invites/").content.decode()
    )
    assert inviter.post("/play/invites/", form()).status_code == 201
    assert (
        stranger.post(
            f"/play/invites/{Invite.objects.get().pk}/revoke/", {"confirm": "1"}
        ).status_code
        == 404
    )
    environment.members.add(eve)
    assert stranger.post("/play/invites/", form()).status_code == 201


def test_a_guest_plays_what_became_private(stranger: Client) -> None:
    link = make_link(environment=make_split(make_task()).environment)
    stranger.post(link, {"name": "Zoë"})
    Environment.objects.update(is_private=True)
    assert "math" in stranger.get("/play/").content.decode()
    play = Play.objects.create(episode=make_episode(player="human"), guest=Guest.objects.get())
    assert stranger.get(f"/play/{play.pk}/").status_code == 200


def test_the_list_shows_state_guests_and_their_episodes(client: Client) -> None:
    make_link()
    guest = Guest.objects.create(invite=Invite.objects.get(), name="Zoë")
    make_link(-DAY, name="old")
    Play.objects.create(episode=make_episode(player="human"), guest=guest)
    page = client.get("/play/invites/").content.decode()
    assert f"?who=%40Zo%C3%AB%20%28guest%20{guest.pk}%29" in page
    assert ('data-state="open"' in page, 'data-state="expired"' in page) == (True, True)


def test_without_keys_it_says_what_invites_need(client: Client) -> None:
    assert "ORSWEB_ALLOWED_HOSTS" in client.get("/play/invites/").content.decode()


def test_a_stranger_with_the_link_becomes_a_guest(stranger: Client) -> None:
    split = make_split(make_task())
    path = make_link(split=split)
    assert "You're invited to play <b>math</b>, train" in stranger.get(path).content.decode()
    answer = stranger.post(path, {"name": "  Zoë   K. "})
    assert (answer.status_code, answer["Location"]) == (302, "/play/?environment=math&split=train")
    assert stranger.session["guest"] == Guest.objects.get(name="Zoë K.").pk
    assert stranger.get("/play/").status_code == 200


@each(
    "name",
    [
        "",
        "   ",
        "x" * 61,
        "a\u202eb",
        "P0\t1",
        "P0\n1",
        "P0\x0b1",
        "P0\u20281",
        "P0\u28001",
        "P0\u31641",
    ],
)
def test_a_guest_needs_a_name_that_can_be_shown(stranger: Client, name: str) -> None:
    answer = stranger.post(make_link(), {"name": name})
    assert answer.status_code == 422 and 'role="alert"' in answer.content.decode()
    assert not Guest.objects.exists()


@each("query", ["id=" + "x" * 61, "id=P0%091", "id=P0%E2%80%8B1", "id=P01&id=P02"])
def test_a_link_with_an_id_that_nobody_can_have_says_so(stranger: Client, query: str) -> None:
    answer = stranger.get(f"{make_link()}?{query}")
    assert answer.status_code == 422 and 'role="alert"' in answer.content.decode()


def test_a_link_may_have_what_recruiting_sites_and_mails_add(stranger: Client) -> None:
    page = stranger.get(f"{make_link()}?id=P%2001&STUDY_ID=5&fbclid=x&id=P%2001").content.decode()
    assert 'value="P 01"' in page and 'role="alert"' not in page


def test_a_guest_who_comes_again_is_the_same_guest(stranger: Client) -> None:
    path = make_link()
    stranger.post(path, {"name": "Zoë"})
    assert stranger.get(path).status_code == 302
    assert Guest.objects.count() == 1


def test_an_account_does_not_become_a_guest(stranger: Client) -> None:
    stranger.force_login(member("player", name="bob"))
    assert stranger.get(make_link()).status_code == 302
    assert not Guest.objects.exists()


@pytest.mark.parametrize(
    ("lasts", "revoked", "told"),
    [(-DAY, None, "has expired"), (DAY, timezone.now(), "was revoked")],
)
def test_a_closed_link_says_so_and_nothing_else(
    stranger: Client, lasts: Any, revoked: Any, told: str
) -> None:
    answer = stranger.get(make_link(lasts, revoked=revoked))
    assert answer.status_code == 410 and told in answer.content.decode()
    assert "math" not in answer.content.decode() and "/episodes/" not in answer.content.decode()


@each("token", ["x", "x" * 43, "%00", "%F0%9F%98%80"])
def test_an_unknown_link_is_not_found(stranger: Client, token: str) -> None:
    assert stranger.get(f"/play/invite/{token}/").status_code == 404


@pytest.mark.parametrize("change", [{"revoked": timezone.now()}, {"expires": timezone.now() - DAY}])
def test_guests_of_a_closed_invite_are_informed_at_their_next_request(
    stranger: Client, change: Any
) -> None:
    stranger.post(make_link(), {"name": "Zoë"})
    Invite.objects.update(**change)
    answer = stranger.get("/play/")
    assert answer.status_code == 410 and "Your invite has ended" in answer.content.decode()


def test_revoking_twice_keeps_the_first_time(client: Client) -> None:
    make_link()
    invite = Invite.objects.get()
    assert client.post(f"/play/invites/{invite.pk}/revoke/", {"confirm": "1"}).status_code == 302
    first = Invite.objects.get().revoked
    client.post(f"/play/invites/{invite.pk}/revoke/", {"confirm": "1"})
    assert first is not None and Invite.objects.get().revoked == first
    assert client.post("/play/invites/999/revoke/", {"confirm": "1"}).status_code == 404


def test_the_operator_can_try_one_out_and_stop(client: Client) -> None:
    path = make_link()
    assert "trying out your own invite" in client.get(path).content.decode()
    client.post(path, {"name": "Zoë"})
    assert "Zoë, guest" in client.get("/play/").content.decode()
    client.post("/play/leave/")
    assert "guest" not in client.session


def test_the_referrer_does_not_contain_the_link(stranger: Client) -> None:
    assert stranger.get(make_link())["Referrer-Policy"] == "strict-origin"


def test_the_log_does_not_contain_the_link(
    stranger: Client, caplog: pytest.LogCaptureFixture
) -> None:
    from orsweb.logs import WithoutInvites

    path = make_link()
    Client(enforce_csrf_checks=True).post(path, {"name": "Zoë"})
    [refusal] = [record for record in caplog.records if record.name == "django.security.csrf"]
    WithoutInvites().filter(refusal)
    assert refusal.getMessage().endswith(": /play/invite/…/")
    assert not [record for record in caplog.records if path in record.getMessage()]


def test_an_account_without_the_permission_has_no_access_to_invites(stranger: Client) -> None:
    make_link()
    stranger.force_login(member("player", name="bob", is_staff=True))
    revoke = f"/play/invites/{Invite.objects.get().pk}/revoke/"
    posts = [stranger.post("/play/invites/", form()), stranger.post(revoke)]
    for answer in (stranger.get("/play/invites/"), *posts):
        assert (
            answer.status_code == 403
            and "Your account, bob, may not invite guests." in answer.content.decode()
        )
    assert list(Invite.objects.values_list("name", "revoked")) == [("pilot", None)]
    assert "/play/invites/" not in stranger.get("/play/").content.decode()
    assert "/play/invites/" not in stranger.get("/play/people/").content.decode()


def test_the_permission_allows_invites(stranger: Client) -> None:
    ada = member("player")
    ada.user_permissions.add(Permission.objects.get(codename="add_invite"))
    stranger.force_login(ada)
    assert stranger.post("/play/invites/", form()).status_code == 201
    assert "/play/invites/" in stranger.get("/play/people/").content.decode()
