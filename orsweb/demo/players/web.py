"""A scripted player of `web`: reaches the milestones as a visitor of the site would, or follows unrelated links."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from environments.builtin.web.stock import stock_of
from orsweb.demo.scripted_session import Act

_STRAYS = ["Home", "News", "Help", "Shop", "Account", "Checkout", "Log in"]
"""Targets that lead nowhere useful; some of them are on no page."""


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    for milestone in spec["milestones"]:
        while random.random() > 0.45 + 0.55 * skill:
            await act("click", target=random.choice(_STRAYS))
        if random.random() < 0.4 + 0.6 * skill:
            await _reach(spec, act, milestone)
    if spec["answer"]:
        is_right = random.random() < skill
        await act("answer", text=spec["answer"] if is_right else random.choice(["42", "Ceramics", "I do not know"]))


async def _reach(spec: Mapping[str, Any], act: Act, milestone: str) -> None:
    kind, _, rest = milestone.partition(" ")
    if kind == "signed":
        stock = stock_of(spec["site"])
        await act("click", target="Account")
        await _fill(act, {"User": stock.user, "Password": stock.password}, "Sign in")
    elif kind in _ACTIONS:
        await _ACTIONS[kind](act, rest)
    else:
        await act("open", url=rest)


async def _fill(act: Act, fields: Mapping[str, str], button: str) -> None:
    for field, text in fields.items():
        await act("type", field=field, text=text)
    await act("click", target=button)


async def _fill_cart(act: Act, rest: str) -> None:
    for line in rest.split(", "):
        count, _, name = line.partition(" x ")
        await _fill(act, {"Search the shop": name}, "Search")
        await act("click", target=name)
        await _fill(act, {"Quantity": count}, "Add to cart")


async def _order(act: Act, rest: str) -> None:
    [(delivery, name, city)] = re.findall(r" by (\w+) to (.+?), (\w+)", rest)
    await act("open", url="/checkout")
    await _fill(act, {"Name": name, "City": city, "Delivery": delivery}, "Place order")


async def _change_profile(act: Act, rest: str) -> None:
    [(city, newsletter)] = re.findall(r"city (\w+), newsletter (\w+)", rest)
    await _fill(act, {"City": city, "Newsletter": newsletter}, "Save profile")


async def _cancel(act: Act, number: str) -> None:
    await act("click", target=f"Order {number}")
    await act("click", target="Cancel this order")


async def _write(act: Act, rest: str) -> None:
    [(topic, number)] = re.findall(r"about (.+), order (\d+)", rest)
    await _fill(act, {"Topic": topic, "Number of the order": number, "Message": "As soon as you can."}, "Send message")


async def _use_coupon(act: Act, code: str) -> None:
    await _fill(act, {"Coupon code": code}, "Apply coupon")


async def _rate(act: Act, rest: str) -> None:
    await _fill(act, {"Stars": rest.rpartition(": ")[2]}, "Send rating")


_ACTIONS: dict[str, Callable[[Act, str], Awaitable[None]]] = {
    "cart:": _fill_cart,
    "coupon": _use_coupon,
    "ordered:": _order,
    "profile:": _change_profile,
    "cancelled:": _cancel,
    "wrote": _write,
    "rated": _rate,
}
