"""The goals of the splits, from one seeded generator each; used by `web.py`.

Each kind of goal writes down what has to happen, in the sentences that the site's `facts` use.
Sites 0 to 99 are for training, 100 to 119 for validation and 200 to 239 for tests, so no page is in
two splits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from environments.builtin.web.site import HOST
from environments.builtin.web.stock import CITIES, PEOPLE, SHIPPING, Item, Stock, stock_of

COUNTS = {"train": 240, "validation": 50, "test": 100}
SITES = {"train": range(0, 100), "validation": range(100, 120), "test": range(200, 240)}


@dataclass(frozen=True)
class Goal:
    """`milestones` in their order, the goal last; `steps` that someone who knows the site needs."""

    text: str
    milestones: list[str]
    steps: int
    answer: str = ""


def task(split: str, index: int) -> dict[str, Any]:
    """Return the task at `index`; kinds take turns."""
    random = Random(f"web/{split}/{index}")
    site = random.choice(SITES[split])
    make = GOALS[index % len(GOALS)]
    goal = make(random, stock_of(site))
    return {
        "goal": goal.text,
        "start_url": f"{HOST}/",
        "max_steps": 2 * goal.steps + 6,
        "site": site,
        "milestones": goal.milestones,
        "answer": goal.answer,
        "topic": make.__name__.strip("_"),
        "seed": f"{split}/{index}",
    }


def _item_in_stock(random: Random, stock: Stock) -> Item:
    return random.choice([item for item in stock.items.values() if item.stock])


def _delivery(random: Random, lines: str, coupon: str = "") -> tuple[str, str]:
    """Return how an order is to be sent, in the words of the goal and of the site."""
    person, city, way = random.choice(PEOPLE), random.choice(CITIES), random.choice(SHIPPING)
    with_coupon = f" with {coupon}" if coupon else ""
    return (
        f"for {person} in {city}, delivery: {way}",
        f"ordered: {lines} by {way} to {person}, {city}{with_coupon}",
    )


def _buy(random: Random, stock: Stock) -> Goal:
    item, count = _item_in_stock(random, stock), random.randint(1, 4)
    line = f"{count} x {item.name}"
    how, order = _delivery(random, line)
    milestones = [f"opened /item/{item.slug}", f"cart: {line}", "opened /checkout", order]
    return Goal(f"Order {line} {how}.", milestones, 10)


def _buy_cheapest(random: Random, stock: Stock) -> Goal:
    department = _item_in_stock(random, stock).department
    item = min((item for item in stock.of(department) if item.stock), key=lambda item: item.price)
    line = f"1 x {item.name}"
    how, order = _delivery(random, line)
    milestones = [
        f"opened /shop/{department}",
        f"opened /item/{item.slug}",
        f"cart: {line}",
        order,
    ]
    return Goal(
        f"Order the cheapest thing in {department} that is in stock, one of it, {how}.",
        milestones,
        10,
    )


def _buy_with_coupon(random: Random, stock: Stock) -> Goal:
    item = _item_in_stock(random, stock)
    line = f"1 x {item.name}"
    how, order = _delivery(random, line, stock.coupon)
    milestones = ["opened /news", f"cart: {line}", f"coupon {stock.coupon}", order]
    return Goal(f"Order {line} {how}, and use the coupon of this month.", milestones, 13)


def _fill_cart(random: Random, stock: Stock) -> Goal:
    first, second = random.sample([item for item in stock.items.values() if item.stock], 2)
    counts = {first.name: random.randint(1, 3), second.name: random.randint(1, 3)}
    lines = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    milestones = [f"opened /item/{first.slug}", f"opened /item/{second.slug}", f"cart: {lines}"]
    return Goal(f"Have exactly this in the cart: {lines}.", milestones, 9)


def _read_help(random: Random, stock: Stock) -> Goal:
    department = random.choice(list(stock.warranty_years))
    questions = {
        "returns": ("Within how many days may things be sent back?", str(stock.return_days)),
        "warranty": (
            f"For how many years are {department} under warranty?",
            str(stock.warranty_years[department]),
        ),
        "workshop": ("On which day of the week is the workshop closed?", stock.closing_day),
        "delivery": (
            "From how many dollars on is standard delivery free?",
            str(stock.free_from // 100),
        ),
    }
    page = random.choice(list(questions))
    text, answer = questions[page]
    return Goal(
        f"{text} Answer with that alone.", ["opened /help", f"opened /help/{page}"], 3, answer
    )


def _compare(random: Random, stock: Stock) -> Goal:
    department = random.choice(list(stock.warranty_years))
    items = stock.of(department)
    answers = {
        "has the best rating": max(items, key=lambda item: item.rating),
        "costs the most": max(items, key=lambda item: item.price),
        "costs the least": min(items, key=lambda item: item.price),
    }
    what = random.choice(list(answers))
    text = f"Which thing in {department} {what}, sold out or not? Answer with its name."
    return Goal(text, ["opened /shop", f"opened /shop/{department}"], 3, answers[what].name)


def _inspect(random: Random, stock: Stock) -> Goal:
    item = random.choice(list(stock.items.values()))
    text, answer = random.choice(
        [
            (f"In which country is the {item.name} made?", item.origin),
            (f"How many grams does the {item.name} weigh?", str(item.weight_grams)),
            (f"What colour is the {item.name}?", item.colour),
        ]
    )
    return Goal(f"{text} Answer with that alone.", [f"opened /item/{item.slug}"], 4, answer)


def _sign_in(stock: Stock) -> str:
    return f"You are {stock.person}; sign in as {stock.user} with the password {stock.password}."


def _look_up_order(random: Random, stock: Stock) -> Goal:
    order = random.choice(list(stock.orders.values()))
    name, _ = random.choice(order.lines)
    text = f"{_sign_in(stock)} What did the order with the {name} cost in total, in dollars?"
    milestones = [
        f"signed in as {stock.user}",
        "opened /account/orders",
        f"opened /account/orders/{order.number}",
    ]
    return Goal(text, milestones, 8, f"{order.total / 100:.2f}")


def _cancel_order(random: Random, stock: Stock) -> Goal:
    order = random.choice([row for row in stock.orders.values() if row.status == "in preparation"])
    name, _ = random.choice(order.lines)
    milestones = [
        f"signed in as {stock.user}",
        "opened /account/orders",
        f"cancelled: {order.number}",
    ]
    return Goal(
        f"{_sign_in(stock)} Cancel the order with the {name} in it, and no other.", milestones, 8
    )


def _change_profile(random: Random, stock: Stock) -> Goal:
    city = random.choice([city for city in CITIES if city != stock.city])
    text = (
        f"{_sign_in(stock)} You have moved to {city}: change your profile, and subscribe to the "
        "newsletter."
    )
    return Goal(text, [f"signed in as {stock.user}", f"profile: city {city}, newsletter yes"], 7)


def _write(random: Random, stock: Stock) -> Goal:
    number = random.randint(1000, 9999)
    topic, why = random.choice(
        [("Returns", "send back"), ("Repairs", "have mended"), ("Delivery", "receive sooner")]
    )
    text = (
        f"Write to the shop that you want to {why} what is in order {number}, under the topic it "
        "belongs to."
    )
    return Goal(
        text, ["opened /help", "opened /contact", f"wrote about {topic}, order {number}"], 6
    )


def _rate(random: Random, stock: Stock) -> Goal:
    item, stars = random.choice(list(stock.items.values())), random.randint(1, 5)
    milestones = [f"opened /item/{item.slug}", f"rated {item.name}: {stars}"]
    return Goal(f"Rate the {item.name} with {stars} of 5 stars.", milestones, 6)


GOALS: list[Callable[[Random, Stock], Goal]] = [
    _read_help,
    _buy,
    _compare,
    _look_up_order,
    _fill_cart,
    _write,
    _buy_cheapest,
    _inspect,
    _cancel_order,
    _rate,
    _buy_with_coupon,
    _change_profile,
]
"""Every kind of goal. Adding or removing one changes all tasks."""
