"""The charts and questions of the splits, from one seeded generator each; used by `chart.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from environments.builtin.chart.picture import Data, Series, x_axis, y_axis

COUNTS = {"train": 300, "validation": 50, "test": 100}
KINDS = ["bars", "lines", "pie", "scatter", "stacked"]
ZOOMS = 6
MIN_PRECISIONS = 4
"""Minimum answer, as a multiple of its reading precision."""

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
YEARS = [str(year) for year in range(2014, 2026)]
HOURS = [f"{hour}:00" for hour in range(6, 20)]


@dataclass(frozen=True)
class Theme:
    """The subject of a chart of categories, with values between `low` and `high`."""

    title: str
    y_label: str
    x_label: str
    categories: list[str]
    names: list[str]
    low: float
    high: float


THEMES = [
    Theme(
        "Visitors of the city museum",
        "Visitors (thousands)",
        "Month",
        MONTHS,
        ["Adults", "Children", "Groups"],
        4,
        60,
    ),
    Theme(
        "Loaves sold at the corner bakery",
        "Loaves",
        "Day",
        DAYS,
        ["Rye", "Wheat", "Spelt", "Oat"],
        20,
        180,
    ),
    Theme(
        "Rainfall along the river",
        "Rainfall (mm)",
        "Month",
        MONTHS,
        ["Coast", "Valley", "Plateau"],
        8,
        140,
    ),
    Theme(
        "Electricity from the island's plants",
        "Output (GWh)",
        "Year",
        YEARS,
        ["Wind", "Solar", "Hydro"],
        30,
        420,
    ),
    Theme(
        "Bicycles on the bridges", "Bicycles", "Hour", HOURS, ["North", "Mill", "Harbour"], 60, 950
    ),
    Theme(
        "Loans of the public library",
        "Loans (thousands)",
        "Year",
        YEARS,
        ["Novels", "Films", "Music"],
        1,
        9,
    ),
    Theme(
        "Harvest of the orchards",
        "Harvest (tonnes)",
        "Year",
        YEARS,
        ["Apples", "Pears", "Plums", "Quinces"],
        5,
        75,
    ),
    Theme(
        "Parcels through the depot",
        "Parcels (hundreds)",
        "Day",
        DAYS,
        ["Letters", "Small", "Large"],
        3,
        48,
    ),
    Theme(
        "Passengers of the ferries",
        "Passengers",
        "Month",
        MONTHS,
        ["Aurora", "Bonito", "Corvina"],
        150,
        2400,
    ),
]

PIES = [
    ("How the town spends its money", ["Schools", "Roads", "Health", "Parks", "Culture", "Other"]),
    ("How people travel to work", ["Train", "Bicycle", "Car", "Bus", "On foot"]),
    ("Languages spoken at home", ["Portuguese", "English", "Arabic", "Polish", "Other"]),
    ("What the harbour handles", ["Grain", "Containers", "Timber", "Fish", "Cars"]),
    ("Where the heat comes from", ["Heat pumps", "Gas", "Wood", "District heating"]),
    ("Books lent by subject", ["Novels", "Travel", "Science", "Cooking", "History", "Art"]),
]


@dataclass(frozen=True)
class Scene:
    """The subject of a scatter plot; y runs from one of `ends` to the other between x `low` and `high`."""

    title: str
    x_label: str
    y_label: str
    low: float
    high: float
    ends: tuple[float, float]
    names: list[str]

    def y_at(self, x: float, off: float) -> float:
        """Return the y at `x`, `off` by a share of the whole range; never below the lower end by more than a tenth."""
        first, last = self.ends
        spread = abs(last - first)
        y = first + (last - first) * (x - self.low) / (self.high - self.low) + off * spread
        return round(max(min(self.ends) - spread / 10, y), 0 if spread > 200 else 1)


SCENES = [
    Scene(
        "Flats to let",
        "Size (square metres)",
        "Rent (euros a month)",
        25,
        140,
        (520, 2100),
        ["Centre", "Suburbs"],
    ),
    Scene(
        "Dogs at the show", "Height (cm)", "Weight (kg)", 20, 85, (9, 62), ["Hounds", "Terriers"]
    ),
    Scene(
        "Runs along the lake", "Distance (km)", "Time (minutes)", 3, 24, (17, 145), ["Ana", "Tom"]
    ),
    Scene("Trees in the park", "Age (years)", "Height (m)", 5, 120, (4, 31), ["Oaks", "Limes"]),
    Scene(
        "Cars at the auction",
        "Age (years)",
        "Price (thousand euros)",
        1,
        15,
        (34, 5),
        ["Petrol", "Electric"],
    ),
    Scene(
        "Weather on the peaks",
        "Altitude (m)",
        "Temperature (degrees C)",
        300,
        3400,
        (19, -9),
        ["May", "October"],
    ),
]


class Question(NamedTuple):
    """`readings`: off how many places the answer is read; `is_across`: off the axis below, not the upright one."""

    text: str
    answer: float
    readings: int = 1
    is_across: bool = False


def task(split: str, index: int) -> dict[str, Any]:
    """Return the task at `index`; kinds take turns.

    It is drawn again while its answer is so small that a blind 0 would pay.
    """
    random = Random(f"chart/{split}/{index}")
    kind = KINDS[index % len(KINDS)]
    make = {"pie": _pie, "scatter": _scatter}.get(kind, _categorical)
    data, question = make(random, kind)
    while abs(question.answer) < MIN_PRECISIONS * _precision(data, question):
        data, question = make(random, kind)
    exact = round(question.answer, 2)
    return {
        **data.model_dump(mode="json", exclude_defaults=True),
        "question": question.text,
        "answer": int(exact) if exact == int(exact) else exact,
        "precision": _precision(data, question),
        "zooms": ZOOMS,
        "seed": f"{split}/{index}",
    }


def _precision(data: Data, question: Question) -> float:
    """Return half of a small tick for each reading; for a pie a full one, because a slice has two
    edges."""
    if data.kind == "pie":
        return float(question.readings)
    axis = x_axis(data) if question.is_across else y_axis(data)
    return round(question.readings * axis.small_step / 2, 6)


def _categorical(random: Random, kind: str) -> tuple[Data, Question]:
    theme = random.choice(THEMES)
    count = random.randint(5, min(8 if kind == "bars" else 10, len(theme.categories)))
    first = random.randint(0, len(theme.categories) - count)
    names = random.sample(theme.names, random.randint(2 if kind == "stacked" else 1, 3))
    rows = [_values(random, theme, count) for _ in names]
    if kind == "lines":
        _separate(rows, (theme.high - theme.low) / 15)
    data = Data(
        kind=kind,  # type: ignore[arg-type]  # one of KINDS
        title=theme.title,
        x_label=theme.x_label,
        y_label=theme.y_label,
        categories=theme.categories[first : first + count],
        series=[Series(name=name, values=values) for name, values in zip(names, rows, strict=True)],
    )
    return data, random.choice(QUESTIONS[kind])(random, data)


def _values(random: Random, theme: Theme, count: int) -> list[float]:
    """Return the values of a walk that turns round at the ends of the theme's range."""
    span, value = theme.high - theme.low, random.uniform(theme.low, theme.high)
    values = []
    for _ in range(count):
        value = theme.high - abs(theme.high - value - random.uniform(-0.3, 0.3) * span)
        value = theme.low + abs(value - theme.low)
        values.append(round(value, 0 if theme.high > 200 else 1))
    return values


def _separate(rows: list[list[float]], least: float) -> None:
    """Lift values that would cover another line's at the same place."""
    for number in range(len(rows[0])):
        below = float("-inf")
        for row in sorted(rows, key=lambda row: row[number]):
            row[number] = below = max(row[number], round(below + least, 1) if below >= 0 else 0.0)


def _value(random: Random, data: Data) -> Question:
    series, number = random.choice(data.series), random.randrange(len(data.categories))
    return Question(
        f"What is the value of {series.name} at {data.categories[number]}?", series.values[number]
    )


def _highest(random: Random, data: Data) -> Question:
    series = random.choice(data.series)
    return Question(f"What is the highest value that {series.name} reaches?", max(series.values))


def _change(random: Random, data: Data) -> Question:
    series = random.choice(data.series)
    first, last = sorted(random.sample(range(len(data.categories)), 2))
    names = f"from {data.categories[first]} to {data.categories[last]}"
    change = series.values[last] - series.values[first]
    return Question(
        f"By how much does {series.name} change {names}? A fall is negative.", change, readings=2
    )


def _total(random: Random, data: Data) -> Question:
    number = random.randrange(len(data.categories))
    total = sum(series.values[number] for series in data.series)
    return Question(f"What do all parts of the bar at {data.categories[number]} add up to?", total)


def _segment(random: Random, data: Data) -> Question:
    place, number = random.randrange(len(data.series)), random.randrange(len(data.categories))
    series = data.series[place]
    text = f"How large is the part of {series.name} in the bar at {data.categories[number]}?"
    return Question(text, series.values[number], readings=2 if place else 1)


QUESTIONS: dict[str, list[Callable[[Random, Data], Question]]] = {
    "bars": [_value, _value, _highest, _change],
    "lines": [_value, _value, _highest, _change],
    "stacked": [_total, _segment],
}


def _pie(random: Random, _: str) -> tuple[Data, Question]:
    title, parts = random.choice(PIES)
    weights = [random.uniform(1, 8) for _ in parts]
    shares = [round(100 * weight / sum(weights), 1) for weight in weights]
    shares[-1] = round(100 - sum(shares[:-1]), 1)
    data = Data(
        kind="pie", title=title, categories=parts, series=[Series(name="Share", values=shares)]
    )
    first, second = random.sample(range(len(parts)), 2)
    if random.random() < 0.7:
        return data, Question(f"What percentage is {parts[first]}?", shares[first])
    text = f"What percentage are {parts[first]} and {parts[second]} together?"
    return data, Question(text, shares[first] + shares[second], readings=2)


def _scatter(random: Random, _: str) -> tuple[Data, Question]:
    scene = random.choice(SCENES)
    names = scene.names[: random.randint(1, 2)]
    tilts = [random.uniform(-0.1, 0.1) for _ in names]
    points: list[list[tuple[float, float]]] = [[] for _ in names]
    for number, x in enumerate(_places(random, scene.low, scene.high)):
        row = number % len(names)
        points[row].append((x, scene.y_at(x, tilts[row] + random.gauss(0, 0.06))))
    series = [Series(name=name, points=of_one) for name, of_one in zip(names, points, strict=True)]
    data = Data(
        kind="scatter",
        title=scene.title,
        x_label=scene.x_label,
        y_label=scene.y_label,
        series=series,
    )
    return data, _about_a_point(random, data)


def _places(random: Random, low: float, high: float) -> list[float]:
    """Return the places along the axis below, far enough apart that no point covers another."""
    places: list[float] = []
    for place in sorted(random.uniform(low, high) for _ in range(22)):
        if not places or place - places[-1] >= (high - low) / 45:
            places.append(round(place, 0 if high > 200 else 1))
    return places


def _about_a_point(random: Random, data: Data) -> Question:
    series = random.choice(data.series)
    height, place = _inside(data.y_label), _inside(data.x_label)
    second, highest = sorted(series.points, key=lambda point: point[1])[-2:]
    questions = [
        Question(
            f"What is the {height} of the rightmost point of {series.name}?", max(series.points)[1]
        ),
        Question(
            f"What is the {height} of the leftmost point of {series.name}?", min(series.points)[1]
        ),
    ]
    if highest[1] - second[1] >= y_axis(data).small_step:  # clearly the highest
        questions.append(
            Question(
                f"What is the {place} of the highest point of {series.name}?",
                highest[0],
                is_across=True,
            )
        )
    return random.choice(questions)


def _inside(label: str) -> str:
    """Return a label in the form that it has within a sentence."""
    return label[0].lower() + label[1:]
