"""What a visitor of the site does to reach a milestone; used by the oracle of `web` and by the
demo's player of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from environments.builtin.web.stock import stock_of

Actions = Iterator[tuple[str, dict[str, str]]]


def calls_for(milestone: str, site: int) -> Actions:
    """Yield the calls that reach `milestone`, such as "cart: 2 x Oak stool", after those before it
    were reached."""
    kind, _, rest = milestone.partition(" ")
    if kind == "signed":
        stock = stock_of(site)
        yield "click", {"target": "Account"}
        yield from _fill({"User": stock.user, "Password": stock.password}, "Sign in")
    elif kind in _ACTIONS:
        yield from _ACTIONS[kind](rest)
    else:
        yield "open", {"url": rest}


def _fill(fields: Mapping[str, str], button: str) -> Actions:
    for field, text in fields.items():
        yield "type", {"field": field, "text": text}
    yield "click", {"target": button}


def _fill_cart(rest: str) -> Actions:
    for line in rest.split(", "):
        count, _, name = line.partition(" x ")
        yield from _fill({"Search the shop": name}, "Search")
        yield "click", {"target": name}
        yield from _fill({"Quantity": count}, "Add to cart")


def _order(rest: str) -> Actions:
    [(delivery, name, city)] = re.findall(r" by (\w+) to (.+?), (\w+)", rest)
    yield "open", {"url": "/checkout"}
    yield from _fill({"Name": name, "City": city, "Delivery": delivery}, "Place order")


def _change_profile(rest: str) -> Actions:
    [(city, newsletter)] = re.findall(r"city (\w+), newsletter (\w+)", rest)
    yield from _fill({"City": city, "Newsletter": newsletter}, "Save profile")


def _cancel(number: str) -> Actions:
    yield "click", {"target": f"Order {number}"}
    yield "click", {"target": "Cancel this order"}


def _write(rest: str) -> Actions:
    [(topic, number)] = re.findall(r"about (.+), order (\d+)", rest)
    fields = {"Topic": topic, "Number of the order": number, "Message": "As soon as you can."}
    yield from _fill(fields, "Send message")


_ACTIONS: dict[str, Callable[[str], Actions]] = {
    "cart:": _fill_cart,
    "coupon": lambda code: _fill({"Coupon code": code}, "Apply coupon"),
    "ordered:": _order,
    "profile:": _change_profile,
    "cancelled:": _cancel,
    "wrote": _write,
    "rated": lambda rest: _fill({"Stars": rest.rpartition(": ")[2]}, "Send rating"),
}
