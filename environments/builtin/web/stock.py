"""The goods, texts and accounts of the bundled shop, derived from the site number. Used by
`site.py` and `tasks.py`.

Amounts are in cents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

DEPARTMENTS = {
    "lamps": [
        "desk lamp",
        "floor lamp",
        "lantern",
        "pendant",
        "reading light",
        "wall light",
        "night light",
    ],
    "seats": ["stool", "armchair", "bench", "rocking chair", "footrest", "folding chair", "pouf"],
    "kitchen": ["teapot", "bread box", "pepper mill", "fruit bowl", "tray", "jug", "butter dish"],
    "garden": [
        "watering can",
        "bird house",
        "planter",
        "wind chime",
        "trowel",
        "hose reel",
        "sundial",
    ],
    "textiles": ["cushion", "blanket", "curtain", "rug", "towel", "table runner", "bedspread"],
}
MATERIALS = {
    "lamps": ["Brass", "Glass", "Copper", "Paper", "Oak"],
    "seats": ["Oak", "Ash", "Walnut", "Rattan", "Leather"],
    "kitchen": ["Ceramic", "Steel", "Olive wood", "Enamel", "Stoneware"],
    "garden": ["Zinc", "Cedar", "Terracotta", "Iron", "Copper"],
    "textiles": ["Linen", "Wool", "Cotton", "Velvet", "Hemp"],
}
COLOURS = ["moss green", "slate blue", "natural", "charcoal", "ochre", "white"]
COUNTRIES = ["Portugal", "Denmark", "Estonia", "Italy", "Slovenia", "Ireland"]
CITIES = ["Lisbon", "Aarhus", "Tartu", "Trieste", "Maribor", "Galway", "Ghent", "Bergen"]
PEOPLE = ["Ada Lund", "Bruno Reis", "Clara Voss", "Dara Quinn", "Emil Kask", "Flora Neri"]
TOPICS = ["Delivery", "Returns", "Repairs", "Something else"]
SHIPPING = ["pickup", "standard", "express"]
MONTHS = ["January", "March", "April", "June", "August", "September"]


@dataclass(frozen=True)
class Item:
    slug: str
    name: str
    department: str
    price: int
    rating: float
    stock: int
    colour: str
    origin: str
    weight_grams: int


@dataclass(frozen=True)
class PastOrder:
    """`lines` are names of items with their quantities; `status` is delivered, on its way or in preparation."""

    number: int
    date: str
    lines: tuple[tuple[str, int], ...]
    total: int
    status: str


@dataclass(frozen=True)
class Stock:
    """Everything about a site that visitors cannot change."""

    items: dict[str, Item]
    orders: dict[int, PastOrder]
    person: str
    password: str
    city: str
    coupon: str
    coupon_percent: int
    return_days: int
    warranty_years: dict[str, int]
    shipping: dict[str, int]
    free_from: int
    closing_day: str

    def of(self, department: str) -> list[Item]:
        return [item for item in self.items.values() if item.department == department]

    @property
    def user(self) -> str:
        return self.person.split()[0].lower()


def money(cents: int) -> str:
    return f"${cents / 100:,.2f}"


def help_pages(stock: Stock) -> dict[str, list[str]]:
    """Return the title and lines of each help page by its name in the address."""
    costs = {way: money(cost) for way, cost in stock.shipping.items()}
    years = ", ".join(
        f"{department} {count} years" for department, count in stock.warranty_years.items()
    )
    return {
        "delivery": [
            "Delivery",
            f"Standard delivery costs {costs['standard']} and takes four days.",
            f"Express delivery costs {costs['express']} and takes one day.",
            f"Standard delivery is free from {money(stock.free_from)} on. Pickup is always free.",
        ],
        "returns": [
            "Returns",
            f"You may send back anything unused within {stock.return_days} days.",
            "Write to us, choose the topic Returns, and give the number of your order.",
        ],
        "warranty": ["Warranty", f"We repair what breaks, for this long: {years}."],
        "workshop": [
            "The workshop",
            f"Our doors are open from 10 to 18, and closed on {stock.closing_day}.",
        ],
    }


@lru_cache(maxsize=256)
def stock_of(site: int) -> Stock:
    """Return the stock that belongs to a number, always the same."""
    random = Random(f"web/site/{site}")
    items = {item.slug: item for department in DEPARTMENTS for item in _items(random, department)}
    person = random.choice(PEOPLE)
    return Stock(
        items=items,
        orders={order.number: order for order in _orders(random, list(items.values()))},
        person=person,
        password=f"{random.choice(['pine', 'gull', 'tide', 'kelp'])}-{random.randint(100, 999)}",
        city=random.choice(CITIES),
        coupon=f"{random.choice(['HARBOUR', 'PINE', 'TIDE', 'DRIFT'])}{random.randint(10, 99)}",
        coupon_percent=random.choice([5, 10, 15, 20]),
        return_days=random.choice([14, 21, 30, 45, 60, 100]),
        warranty_years={department: random.randint(2, 10) for department in DEPARTMENTS},
        shipping={
            "pickup": 0,
            "standard": random.randint(7, 16) * 50,
            "express": random.randint(20, 40) * 50,
        },
        free_from=random.choice([5000, 7500, 10000, 15000]),
        closing_day=random.choice(["Monday", "Tuesday", "Wednesday", "Sunday"]),
    )


def _items(random: Random, department: str) -> list[Item]:
    """Return six items of a department, all of different price and rating, so that one is cheapest
    and one best."""
    kinds = random.sample(DEPARTMENTS[department], 6)
    prices, ratings = random.sample(range(8, 180), 6), random.sample(range(31, 50), 6)
    stock = []
    for kind, price, rating in zip(kinds, prices, ratings, strict=True):
        name = f"{random.choice(MATERIALS[department])} {kind}"
        stock.append(
            Item(
                slug=name.lower().replace(" ", "-"),
                name=name,
                department=department,
                price=price * 100 + random.choice([0, 50, 90]),
                rating=rating / 10,
                stock=0 if random.random() < 0.15 else random.randint(4, 20),
                colour=random.choice(COLOURS),
                origin=random.choice(COUNTRIES),
                weight_grams=random.randint(2, 90) * 50,
            )
        )
    return stock


def _orders(random: Random, items: list[Item]) -> list[PastOrder]:
    """Return five orders with different things in them: each item names one order."""
    sample = random.sample(items, 10)
    statuses = ["in preparation", "in preparation", "on its way", "delivered", "delivered"]
    random.shuffle(statuses)
    orders, number = [], random.randint(1000, 8000)
    for place, month in enumerate(sorted(random.sample(range(len(MONTHS)), 5))):
        number += random.randint(3, 90)
        lines = tuple(
            (item.name, random.randint(1, 3)) for item in sample[2 * place : 2 * place + 2]
        )
        total = sum(
            item.price * count for item, (_, count) in zip(sample[2 * place :], lines, strict=False)
        )
        date = f"{random.randint(1, 28)} {MONTHS[month]}"
        orders.append(PastOrder(number, date, lines, total, statuses[place]))
    return orders
