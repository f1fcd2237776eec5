"""Kinds of puzzles whose input is a number or two."""

from __future__ import annotations

from random import Random

from environments.builtin.code.puzzles.puzzle import Kind, Puzzle, numbers


def _sum_of_some(random: Random) -> Puzzle:
    by, but = random.randint(2, 6), random.randint(7, 11)

    def solve(values: list[int]) -> int:
        return sum(value for value in values if value % by == 0 and value % but != 0)

    text = f"Return the sum of the numbers that are divisible by {by} but not by {but}."
    return Puzzle(
        "sum_of_some(values: list[int]) -> int", text, solve, lambda r: (numbers(r, 14, -60, 90),)
    )


def _digit_powers(random: Random) -> Puzzle:
    base, power = random.choice([2, 3, 5, 7, 8, 9, 10, 12, 16]), random.randint(2, 5)

    def solve(n: int) -> int:
        total = 0
        while n:
            n, digit = divmod(n, base)
            total += int(digit**power)
        return total

    text = (
        f"Write n in base {base}, raise every digit to the power {power}, and return the sum. n is "
        "at least 0."
    )
    return Puzzle(
        "digit_powers(n: int) -> int",
        text,
        solve,
        lambda r: (r.choice([0, r.randint(1, 20), r.randint(21, 10**7)]),),
    )


def _count_between(random: Random) -> Puzzle:
    by, remainder = random.randint(3, 9), random.randint(0, 2)

    def solve(low: int, high: int) -> int:
        return sum(1 for n in range(low, high + 1) if sum(map(int, str(n))) % by == remainder)

    text = (
        "Count the whole numbers from low to high, both included, whose sum of decimal digits "
        "leaves the remainder "
        f"{remainder} when divided by {by}. If high is below low there are none."
    )
    draw = lambda r: ((low := r.randint(0, 900)), low + r.randint(-20, 2000))  # noqa: E731
    return Puzzle("count_between(low: int, high: int) -> int", text, solve, draw)


def _orbit(random: Random) -> Puzzle:
    factor, plus, modulus = (
        random.randint(2, 19),
        random.randint(1, 30),
        random.choice([53, 64, 97, 100, 128, 180]),
    )

    def solve(start: int) -> int:
        orbit: set[int] = set()
        while start not in orbit:
            orbit.add(start)
            start = (factor * start + plus) % modulus
        return len(orbit)

    text = (
        f"Starting with x = start, x is replaced by ({factor} * x + {plus}) % {modulus} again and "
        "again. Return how many different values x takes, the first included."
    )
    return Puzzle("orbit(start: int) -> int", text, solve, lambda r: (r.randint(0, 400),))


def _ways_to_pay(random: Random) -> Puzzle:
    coins = sorted(random.sample([1, 2, 3, 4, 5, 7, 10, 12, 20, 25], random.randint(3, 5)))

    def solve(amount: int) -> int:
        ways = [1] + [0] * amount
        for coin in coins:
            for n in range(coin, amount + 1):
                ways[n] += ways[n - coin]
        return ways[amount]

    text = (
        f"Coins of {', '.join(map(str, coins))} cents exist, as many of each as you like. Return "
        "in how many ways they can be put together to make exactly `amount` cents; the order does "
        "not matter. For 0 there is one way."
    )
    return Puzzle("ways_to_pay(amount: int) -> int", text, solve, lambda r: (r.randint(0, 120),))


def _fewest_coins(random: Random) -> Puzzle:
    coins = sorted(random.sample([3, 4, 5, 6, 7, 9, 11, 13, 15, 21, 25], random.randint(3, 4)))

    def solve(amount: int) -> int:
        best: list[int | None] = [0] + [None] * amount
        for n in range(1, amount + 1):
            counts = [
                count for coin in coins if coin <= n and (count := best[n - coin]) is not None
            ]
            best[n] = min(counts) + 1 if counts else None
        fewest = best[amount]
        return -1 if fewest is None else fewest

    text = (
        f"Coins of {', '.join(map(str, coins))} cents exist, as many of each as you like. Return "
        "the smallest number of coins that make exactly `amount` cents, or -1 if none do."
    )
    return Puzzle("fewest_coins(amount: int) -> int", text, solve, lambda r: (r.randint(0, 160),))


def _to_digits(random: Random) -> Puzzle:
    base = random.randint(3, 8)
    marks = "".join(random.sample("abcdefghkmnpqrstuvwxyz", base))

    def solve(n: int) -> str:
        text = ""
        while n >= 0:
            n, digit = divmod(n, base)
            text = marks[digit] + text
            n -= n == 0
        return text

    text = (
        f"Write n in base {base} with the letters of {marks!r} as digits: {marks[0]!r} stands for "
        f"0, {marks[1]!r} for "
        f"1 and so on. 0 is {marks[0]!r}; otherwise there are no leading zeros. n is at least 0."
    )
    return Puzzle(
        "to_digits(n: int) -> str",
        text,
        solve,
        lambda r: (r.choice([0, r.randint(1, 40), r.randint(41, 10**6)]),),
    )


def _recurrence(random: Random) -> Puzzle:
    first, second, p, q = (random.randint(1, 9) for _ in range(4))
    modulus = random.choice([997, 1009, 10007, 65537])

    def solve(n: int) -> int:
        a, b = first, second
        for _ in range(n):
            a, b = b, (p * b + q * a) % modulus
        return a

    text = (
        f"f(0) = {first}, f(1) = {second}, and f(n) = ({p} * f(n - 1) + {q} * f(n - 2)) % "
        f"{modulus} for larger n. Return f(n). n is at most 10,000."
    )
    return Puzzle(
        "recurrence(n: int) -> int",
        text,
        solve,
        lambda r: (r.choice([r.randint(0, 5), r.randint(6, 90), r.randint(2000, 5000)]),),
    )


def _prime_factors(random: Random) -> Puzzle:
    modulus = random.randint(3, 7)
    remainder = random.randint(1, modulus - 1)
    is_once = random.random() < 0.5

    def solve(n: int) -> int:
        factors, prime = [], 2
        while n > 1:
            while n % prime == 0:
                factors.append(prime)
                n //= prime
            prime += 1
        return sum(
            prime
            for prime in (set(factors) if is_once else factors)
            if prime % modulus == remainder
        )

    how = "counting each only once" if is_once else "each as often as it divides n"
    text = (
        f"Return the sum of the prime factors of n that leave the remainder {remainder} when "
        f"divided by {modulus}, {how}. n is at least 1 and at most 10,000."
    )
    return Puzzle(
        "prime_factors(n: int) -> int",
        text,
        solve,
        lambda r: (r.choice([r.randint(1, 60), r.randint(61, 10**4)]),),
    )


def _clock(random: Random) -> Puzzle:
    step, hours = random.choice([5, 6, 10, 12, 15, 20, 30]), random.choice([10, 12, 20, 24])

    def solve(time: str, minutes: int) -> str:
        hour, minute = map(int, time.split(":"))
        total = (hour * 60 + minute + minutes) % (hours * 60)
        total -= total % step
        return f"{total // 60:02d}:{total % 60:02d}"

    text = (
        f"On a planet whose day has {hours} hours of 60 minutes, `time` is a time as 'HH:MM'. "
        "Return the time `minutes` later (earlier if negative), rounded down to a multiple of "
        f"{step} minutes since midnight, in the same form."
    )

    def draw(r: Random) -> tuple[str, int]:
        return f"{r.randrange(hours):02d}:{r.randrange(60):02d}", r.randint(-3000, 3000)

    return Puzzle("clock(time: str, minutes: int) -> str", text, solve, draw)


KINDS: list[tuple[int, Kind]] = [
    (1, _sum_of_some),
    (1, _digit_powers),
    (1, _count_between),
    (2, _orbit),
    (3, _ways_to_pay),
    (3, _fewest_coins),
    (2, _to_digits),
    (2, _recurrence),
    (2, _prime_factors),
    (2, _clock),
]
"""Kinds of puzzles with their difficulty, 1 to 4."""
