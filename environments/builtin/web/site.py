"""Harbour & Pine, the bundled site: a shop with a search, a cart, a checkout, help pages, forms and
an account.

Used by `web.py`: `page` returns the page of an address, `submit` does what a button says. Nothing
is served over a network. `facts` are sentences about what the visitor has done; a task's milestones
are such sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote_plus, urlsplit

from environments.builtin.web import stock as web_stock
from environments.builtin.web.page import Button, Field, Link, Page, Row
from environments.builtin.web.stock import DEPARTMENTS, SHIPPING, TOPICS, Item, money

HOST = "http://harbourpine.example"
YES_NO = ("yes", "no")
Outcome = tuple[str, str]
"""Address to which a button leads, and the first line of the page there."""


class Site:
    """The session of one visitor with the site number `number`."""

    def __init__(self, number: int) -> None:
        self.stock = web_stock.stock_of(number)
        self.cart: dict[str, int] = {}
        self.coupon = ""
        self.is_signed_in = False
        self.profile = {"city": self.stock.city, "newsletter": "no"}
        self.cancelled: set[int] = set()
        self.has_written = False
        """Only one message is accepted; otherwise writing under every topic would reach the right one."""
        self.events: set[str] = set()
        """Events so far, as sentences."""

    def facts(self) -> set[str]:
        """Return the events so far and the current state."""
        now = {f"cart: {self._lines()}"} if self.cart else set()
        now |= {f"profile: city {self.profile['city']}, newsletter {self.profile['newsletter']}"}
        now |= (
            {f"cancelled: {', '.join(map(str, sorted(self.cancelled)))}"}
            if self.cancelled
            else set()
        )
        return self.events | now

    def _lines(self) -> str:
        names = sorted((self.stock.items[slug].name, count) for slug, count in self.cart.items())
        return ", ".join(f"{count} x {name}" for name, count in names)

    # --- pages ---

    def page(self, url: str) -> Page:
        """Return the page at `url`; for an unknown path, a page that says so."""
        address = urlsplit(url)
        self.events.add(f"opened {address.path}")
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        first, _, rest = address.path.strip("/").partition("/")
        make: dict[str, Callable[[str, dict[str, str]], tuple[str, list[Row]] | None]] = {
            "": self._home,
            "shop": self._shop,
            "item": self._item,
            "search": self._search,
            "cart": self._cart,
            "checkout": self._checkout,
            "help": self._help,
            "news": self._news,
            "contact": self._contact,
            "account": self._account,
            "thanks": self._thanks,
        }
        title, rows = (make[first](rest, query) if first in make else None) or (
            "Page not found",
            [[f"There is nothing at {address.path}. The links above lead on."]],
        )
        return Page(f"Harbour & Pine - {title}", [*self._head(), [f"# {title}"], *rows])

    def _head(self) -> list[Row]:
        cart = f"Cart ({sum(self.cart.values())})"
        links = {
            "Home": "/",
            "Shop": "/shop",
            "Help": "/help",
            "News": "/news",
            "Account": "/account",
            cart: "/cart",
        }
        search: Row = [Field("q", "Search the shop"), Button("Search", "search")]
        return [tuple(Link(label, url) for label, url in links.items()), search, [""]]

    def _home(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]]:
        return "Things for the house, made slowly", [
            ["Departments:", *(Link(name.capitalize(), f"/shop/{name}") for name in DEPARTMENTS)],
            [
                "Loved by our customers:",
                *(Link(f"Best {name}", f"/shop/{name}?sort=rating") for name in DEPARTMENTS),
            ],
            ["Everything here is made in small workshops, and mended in ours."],
        ]

    def _line(self, item: Item) -> Row:
        stock = "in stock" if item.stock else "sold out"
        return [
            Link(item.name, f"/item/{item.slug}"),
            f"{money(item.price)}, {item.rating} of 5 stars, {stock}",
        ]

    def _shop(self, name: str, query: dict[str, str]) -> tuple[str, list[Row]] | None:
        if not name:
            counts = {name: len(self.stock.of(name)) for name in DEPARTMENTS}
            return "All departments", [
                (Link(n.capitalize(), f"/shop/{n}"), f"{count} things")
                for n, count in counts.items()
            ]
        if name not in DEPARTMENTS:
            return None
        items = self.stock.of(name)
        if query.get("sort") in ("price", "rating"):
            items = sorted(
                items, key=lambda item: item.price if query["sort"] == "price" else -item.rating
            )
        sorts: Row = [
            "Sort by:",
            Link("price", f"/shop/{name}?sort=price"),
            Link("rating", f"/shop/{name}?sort=rating"),
        ]
        return name.capitalize(), [sorts, *(self._line(item) for item in items)]

    def _item(self, slug: str, query: dict[str, str]) -> tuple[str, list[Row]] | None:
        item = self.stock.items.get(slug)
        if item is None:
            return None
        buy: Row = ["Sold out; we are making more."]
        if item.stock:
            buy = [Field("quantity", "Quantity", "1"), Button("Add to cart", f"add {slug}")]
        return item.name, [
            [f"{money(item.price)}, {item.rating} of 5 stars, {item.stock or 'none'} in stock"],
            [f"Colour: {item.colour}. Made in {item.origin}. Weight: {item.weight_grams} g."],
            buy,
            [f"Department: {item.department}", Link("See all", f"/shop/{item.department}")],
            ["# Rate it"],
            [
                Field("stars", "Stars", "", ("1", "2", "3", "4", "5")),
                Button("Send rating", f"rate {slug}"),
            ],
        ]

    def _search(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]]:
        words = query.get("q", "").casefold().split()
        items = [
            item
            for item in self.stock.items.values()
            if words and all(word in item.name.casefold() for word in words)
        ]
        title = f"Search for {query.get('q', '')!r}"
        return title, [[f"{len(items)} found."], *(self._line(item) for item in items)]

    def _cart(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]]:
        if not self.cart:
            return "Your cart", [["It is empty.", Link("Go shopping", "/shop")]]
        rows: list[Row] = []
        for slug, count in self.cart.items():
            item = self.stock.items[slug]
            link = Link(item.name, f"/item/{slug}")
            rows.append(
                [
                    f"{count} x",
                    link,
                    money(count * item.price),
                    Button(f"Remove {item.name}", f"remove {slug}"),
                ]
            )
        code: Row = [Field("code", "Coupon code", self.coupon), Button("Apply coupon", "coupon")]
        return "Your cart", [
            *rows,
            [f"Together: {money(self._total())}"],
            code,
            [Link("To the checkout", "/checkout")],
        ]

    def _total(self) -> int:
        total = sum(count * self.stock.items[slug].price for slug, count in self.cart.items())
        return total * (100 - self.stock.coupon_percent) // 100 if self.coupon else total

    def _checkout(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]]:
        if not self.cart:
            return "Checkout", [["Your cart is empty.", Link("Go shopping", "/shop")]]
        costs = ", ".join(f"{name} {money(cost)}" for name, cost in self.stock.shipping.items())
        return "Checkout", [
            [
                f"{self._lines()}: "
                f"{money(self._total())}{f', with coupon {self.coupon}' if self.coupon else ''}"
            ],
            [Field("name", "Name")],
            [Field("city", "City")],
            [Field("shipping", "Delivery", "standard", tuple(SHIPPING)), f"({costs})"],
            [Button("Place order", "order"), Link("Back to the cart", "/cart")],
        ]

    def _thanks(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]]:
        return "Thank you", [["We have it and get to work.", Link("Go on shopping", "/shop")]]

    def _help(self, name: str, query: dict[str, str]) -> tuple[str, list[Row]] | None:
        pages = web_stock.help_pages(self.stock)
        if not name:
            links: list[Row] = [
                [Link(title, f"/help/{slug}")] for slug, (title, *_) in pages.items()
            ]
            return "Help", [*links, [Link("Write to us", "/contact")]]
        if name not in pages:
            return None
        title, *lines = pages[name]
        return title, [*([line] for line in lines), [Link("All help pages", "/help")]]

    def _news(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]]:
        stock = self.stock
        return "News", [
            ["The new kiln is burning. More stoneware soon."],
            [f"This month the coupon {stock.coupon} takes {stock.coupon_percent}% off your cart."],
            [
                f"Sunny terrace: coffee while you wait, but not on {stock.closing_day}, when we are "
                "closed."
            ],
        ]

    def _contact(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]]:
        return "Write to us", [
            [Field("topic", "Topic", "", tuple(TOPICS))],
            [Field("order", "Number of the order")],
            [Field("message", "Message")],
            [Button("Send message", "message"), "(one per visit)"],
        ]

    def _account(self, rest: str, query: dict[str, str]) -> tuple[str, list[Row]] | None:
        if not self.is_signed_in:
            return "Sign in", [
                [Field("user", "User")],
                [Field("password", "Password")],
                [Button("Sign in", "sign in")],
            ]
        kind, _, number = rest.partition("/")
        if kind == "orders" and number:
            return self._order(number)
        if kind == "orders":
            orders = self.stock.orders.values()
            return "Your orders", [
                [Link(f"Order {order.number}", f"/account/orders/{order.number}"), order.date]
                for order in orders
            ]
        if rest:
            return None
        return f"Hello, {self.stock.person}", [
            [Link("Your orders", "/account/orders")],
            ["# Your profile"],
            [Field("city", "City", self.profile["city"])],
            [Field("newsletter", "Newsletter", self.profile["newsletter"], YES_NO)],
            [Button("Save profile", "profile"), Button("Sign out", "sign out")],
        ]

    def _order(self, number: str) -> tuple[str, list[Row]] | None:
        order = (
            self.stock.orders.get(int(number)) if number.isdecimal() and len(number) < 10 else None
        )
        if order is None:
            return None
        status = "cancelled" if order.number in self.cancelled else order.status
        cancel: list[Row] = (
            [[Button("Cancel this order", f"cancel {number}")]]
            if status == "in preparation"
            else []
        )
        lines = ", ".join(f"{count} x {name}" for name, count in order.lines)
        facts = [
            f"Placed on {order.date}: {lines}.",
            f"Total: {money(order.total)}. Status: {status}.",
        ]
        return f"Order {number}", [
            *([fact] for fact in facts),
            *cancel,
            [Link("All your orders", "/account/orders")],
        ]

    # --- buttons ---

    def submit(self, action: str, values: Mapping[str, str]) -> Outcome | str:
        """Do what a button says with the page's fields; a text alone says why it was not done."""
        name, _, rest = action.partition(" ")
        todo: dict[str, Callable[[str, Mapping[str, str]], Outcome | str]] = {
            "search": lambda rest, values: (f"/search?q={quote_plus(values['q'])}", ""),
            "add": self._add,
            "remove": self._remove,
            "coupon": self._apply,
            "order": self._place,
            "sign": self._sign,
            "profile": self._save,
            "cancel": self._cancel,
            "message": self._send,
            "rate": self._rate,
        }
        return todo[name](rest, {name: value.strip() for name, value in values.items()})

    def _add(self, slug: str, values: Mapping[str, str]) -> Outcome | str:
        item, quantity = self.stock.items[slug], values["quantity"]
        if not quantity.isdecimal() or not 1 <= int(quantity) <= item.stock - self.cart.get(
            slug, 0
        ):
            return (
                f"Quantity {quantity or 'none'} is not possible; "
                f"{item.stock - self.cart.get(slug, 0)} can be added."
            )
        self.cart[slug] = self.cart.get(slug, 0) + int(quantity)
        return "/cart", f"{quantity} x {item.name} is in your cart."

    def _remove(self, slug: str, values: Mapping[str, str]) -> Outcome:
        self.cart.pop(slug, None)
        return "/cart", f"{self.stock.items[slug].name} is no longer in your cart."

    def _apply(self, rest: str, values: Mapping[str, str]) -> Outcome | str:
        if values["code"].upper() != self.stock.coupon:
            return f"The coupon {values['code'] or '(none)'} is not valid."
        self.coupon = self.stock.coupon
        self.events.add(f"coupon {self.coupon}")
        return "/cart", f"Coupon {self.coupon}: {self.stock.coupon_percent}% off."

    def _place(self, rest: str, values: Mapping[str, str]) -> Outcome | str:
        if not values["name"] or not values["city"]:
            return "Please fill in Name and City."
        coupon = f" with {self.coupon}" if self.coupon else ""
        to = f"{values['name']}, {values['city']}"
        self.events.add(f"ordered: {self._lines()} by {values['shipping']} to {to}{coupon}")
        self.cart, self.coupon = {}, ""
        return "/thanks", "Your order is placed."

    def _sign(self, way: str, values: Mapping[str, str]) -> Outcome | str:
        if way == "out":
            self.is_signed_in = False
            return "/", "You are signed out."
        if (values["user"].lower(), values["password"]) != (self.stock.user, self.stock.password):
            return "This user and password do not fit."
        self.is_signed_in = True
        self.events.add(f"signed in as {self.stock.user}")
        return "/account", "You are signed in."

    def _save(self, rest: str, values: Mapping[str, str]) -> Outcome | str:
        if not values["city"]:
            return "Please fill in City."
        self.profile = {name: values[name] for name in self.profile}
        return "/account", "Your profile is saved."

    def _cancel(self, number: str, values: Mapping[str, str]) -> Outcome:
        self.cancelled.add(int(number))
        return f"/account/orders/{number}", f"Order {number} is cancelled."

    def _send(self, rest: str, values: Mapping[str, str]) -> Outcome | str:
        if not values["topic"] or not values["message"]:
            return "Please choose a Topic and write a Message."
        if self.has_written:
            return "You have written to us already; we answer your first message."
        self.has_written = True
        self.events.add(f"wrote about {values['topic']}, order {values['order'] or 'none'}")
        return "/thanks", "Your message is sent."

    def _rate(self, slug: str, values: Mapping[str, str]) -> Outcome | str:
        if not values["stars"]:
            return "Please choose how many Stars."
        self.events.add(f"rated {self.stock.items[slug].name}: {values['stars']}")
        return f"/item/{slug}", "Thank you for the rating."
