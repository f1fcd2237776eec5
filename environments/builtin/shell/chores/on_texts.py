"""Kinds of chores about the content of files: counting, adding up, correcting, joining."""

from __future__ import annotations

from collections import Counter
from random import Random

from environments.builtin.shell.chores.chore import Chore, Kind, lines, names


def _count_lines(random: Random) -> Chore:
    level = random.choice(["ERROR", "WARNING", "TIMEOUT", "DENIED"])
    others = ["INFO", "DEBUG", "NOTICE", level.lower()]
    files, goals = {}, {}
    for name in names(random, random.randint(3, 5)):
        log = [random.choice([level, *others]) for _ in range(random.randint(8, 30))]
        files[f"logs/{name}.log"] = lines([f"{n:03d} {word} {name}" for n, word in enumerate(log)])
        goals[f"counts/{name}.txt"] = f"{log.count(level)}\n"
    text = (
        f"For every file logs/NAME.log, write the number of its lines that contain {level} (in "
        "capitals) to counts/NAME.txt."
    )
    command = (
        f"mkdir -p counts; for f in logs/*.log; do grep -c {level} $f > counts/$(basename $f "
        ".log).txt; done; true"
    )
    return Chore(text, files, goals, command, keep=list(files))


def _sum_csv(random: Random) -> Chore:
    regions, money = (
        names(random, random.randint(3, 4)),
        random.choice(["amount", "price", "sum", "paid"]),
    )
    rows = [
        (random.choice(regions), random.choice(names(random, 3)), random.randint(1, 400))
        for _ in range(40)
    ]
    table = lines(
        [f"region,item,{money}", *(f"{region},{item},{value}" for region, item, value in rows)]
    )
    totals = {
        region: sum(value for where, _, value in rows if where == region) for region in regions
    }
    goals = {f"totals/{region}.txt": f"{total}\n" for region, total in totals.items()}
    goals |= {
        "total.txt": f"{sum(totals.values())}\n",
        "best.txt": f"{max(regions, key=lambda name: totals[name])}\n",
    }
    text = (
        f"sales.csv has the columns region, item and {money}. For every region, write the sum of "
        f"{money} to totals/REGION.txt ({', '.join(regions)}). Write the sum over all regions to "
        "total.txt, and the name of the region with the largest sum to best.txt."
    )
    command = (
        "mkdir -p totals; awk -F, 'NR>1{s[$1]+=$3;t+=$3}END{for(r in s){print "
        's[r]>"totals/"r".txt";'
        'if(s[r]>m){m=s[r];b=r}}print t>"total.txt";print b>"best.txt"}\' sales.csv'
    )
    return Chore(text, {"sales.csv": table}, goals, command, keep=["sales.csv"])


def _settings(random: Random) -> Chore:
    key, value = random.choice(["timeout", "retries", "workers", "port"]), random.randint(10, 99)
    option = random.choice(["debug", "legacy", "verbose"])
    files, goals = {}, {}
    for name in names(random, random.randint(3, 5)):
        entries = [
            f"name = {name}",
            f"{key} = {random.randint(100, 999)}",
            f"{option} = yes",
            "path = /srv",
        ]
        random.shuffle(entries)
        files[f"conf/{name}.ini"] = lines(["[main]", *entries])
        right = [
            f"{key} = {value}" if line.startswith(f"{key} ") else line
            for line in entries
            if option not in line
        ]
        goals[f"conf/{name}.ini"] = lines(["[main]", *right])
    text = (
        f"In every .ini file in conf/, set {key} to {value} (the line reads '{key} = {value}') and "
        "delete the line "
        f"that sets {option}. Leave everything else as it is, the order of the lines too."
    )
    command = f"sed -i -e 's/^{key} = .*/{key} = {value}/' -e '/^{option} =/d' conf/*.ini"
    return Chore(text, files, goals, command)


def _unique(random: Random) -> Chore:
    files, goals, everything = {}, {}, set[str]()
    for name in names(random, random.randint(3, 4)):
        pool = names(random, 8)
        items = [random.choice(pool) for _ in range(random.randint(10, 20))]
        everything |= set(items)
        files[f"lists/{name}.txt"] = lines(items)
        goals[f"clean/{name}.txt"] = lines(sorted(set(items)))
    goals |= {"all.txt": lines(sorted(everything)), "count.txt": f"{len(everything)}\n"}
    text = (
        "For every file lists/NAME.txt, write its different lines in alphabetical order to "
        "clean/NAME.txt. Write the different lines of all these files together, in alphabetical "
        "order, to all.txt, and their number to count.txt."
    )
    command = (
        "mkdir -p clean; for f in lists/*; do sort -u $f > clean/$(basename $f); done; sort -u "
        "lists/* > all.txt; wc -l < all.txt > count.txt"
    )
    return Chore(text, files, goals, command, keep=list(files))


def _access(random: Random) -> Chore:
    hosts, status = (
        [f"10.0.{random.randint(0, 9)}.{n}" for n in random.sample(range(10, 99), 5)],
        random.choice([403, 404, 500]),
    )
    counts = random.sample(range(3, 16), len(hosts))
    calls = [host for host, count in zip(hosts, counts, strict=True) for _ in range(count)]
    random.shuffle(calls)
    pages = [f"/{name}" for name in names(random, 5)]
    log = [(host, random.choice(pages), random.choice([200, 200, 301, status])) for host in calls]
    busiest = [host for host, _ in Counter(calls).most_common(3)]
    goals = {
        "busiest.txt": lines(busiest),
        "failing.txt": lines(sorted({page for _, page, code in log if code == status})),
        "failures.txt": f"{sum(code == status for *_, code in log)}\n",
    }
    text = (
        "Every line of access.log is HOST PAGE STATUS. Write the three hosts with the most lines "
        "to busiest.txt, one a line, the busiest first; the different pages that were answered "
        f"with status {status} to failing.txt, in alphabetical order; and the number of lines "
        f"with status {status} to failures.txt."
    )
    command = (
        "cut -d' ' -f1 access.log | sort | uniq -c | sort -rn | head -3 | awk '{print $2}' > "
        f"busiest.txt; awk '$3=={status}{{print $2}}' access.log | LC_ALL=C sort -u > "
        f"failing.txt; grep -c ' {status}$' access.log > failures.txt; true"
    )
    files = {"access.log": lines([" ".join(map(str, line)) for line in log])}
    return Chore(text, files, goals, command, keep=["access.log"])


def _replace(random: Random) -> Chore:
    old, new = random.sample(["colour", "server", "client", "cluster", "tenant", "worker"], 2)
    files, goals = {}, {}
    for n, name in enumerate(names(random, random.randint(5, 8))):
        words = names(random, 4)
        kind = "md" if n < 3 or random.random() < 0.6 else "txt"
        path = f"docs/{random.choice(['', 'guide/', 'guide/deep/'])}{name}.{kind}"
        files[path] = (
            f"# {name}\n{words[0]} {old} {words[1]}\n{old}, {words[2]} {old}s {words[3]}\n"
        )
        if kind == "md":
            goals[path] = files[path].replace(old, new)
    text = (
        f"In all .md files in docs/ and in the folders within it, replace {old!r} by {new!r} "
        f"everywhere, within words too ({old}s becomes {new}s). Leave files of other kinds alone. "
        "Write the number of .md files to count.txt."
    )
    command = (
        f"find docs -name '*.md' -exec sed -i s/{old}/{new}/g {{}} +; find docs -name '*.md' | wc "
        "-l > count.txt"
    )
    keep = [path for path in files if path not in goals]
    return Chore(text, files, {**goals, "count.txt": f"{len(goals)}\n"}, command, keep=keep)


def _join(random: Random) -> Chore:
    keys, people = sorted(random.sample(range(100, 999), 12)), names(random, 12)
    names_by_key = dict(zip(keys, people, strict=True))
    amounts = {key: random.randint(5, 90) for key in sorted(random.sample(keys, 8))}
    files = {
        "people.csv": lines(["id,name", *(f"{key},{name}" for key, name in names_by_key.items())]),
        "payments.csv": lines(["id,paid", *(f"{key},{value}" for key, value in amounts.items())]),
    }
    goals = {
        "joined.csv": lines(
            [
                "id,name,paid",
                *(f"{key},{names_by_key[key]},{value}" for key, value in amounts.items()),
            ]
        ),
        "missing.txt": lines([name for key, name in names_by_key.items() if key not in amounts]),
        "paid.txt": f"{sum(amounts.values())}\n",
    }
    text = (
        "people.csv has the columns id and name, payments.csv id and paid; both are sorted by id. "
        "Write joined.csv with the columns id, name and paid, with a header, for everybody who "
        "paid, sorted by id. Write the names of those who did not pay to missing.txt, one a line "
        "in the order of people.csv, and the sum of what was paid to paid.txt."
    )
    command = (
        "tail -n +2 people.csv > /tmp/a; tail -n +2 payments.csv > /tmp/b; (echo id,name,paid; "
        "join -t, /tmp/a /tmp/b) > joined.csv; join -t, -v1 /tmp/a /tmp/b | cut -d, -f2 > "
        "missing.txt; awk -F, '{s+=$2}END{print s}' /tmp/b > paid.txt"
    )
    return Chore(text, files, goals, command, keep=list(files))


def _parts(random: Random) -> Chore:
    size, items = (
        random.randint(4, 7),
        [f"{name}-{random.randint(10, 99)}" for name in names(random, random.randint(18, 27))],
    )
    random.shuffle(items)
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    goals = {f"parts/part-{n}.txt": lines(chunk) for n, chunk in enumerate(chunks, 1)}
    goals["last.txt"] = f"{items[-1]}\n"
    text = (
        f"Cut list.txt into files of {size} lines each, in order: parts/part-1.txt, "
        "parts/part-2.txt and so on; the "
        f"last one may be shorter. Write the last line of list.txt to last.txt."
    )
    command = (
        f'mkdir -p parts; awk \'{{print > "parts/part-" int((NR-1)/{size})+1 ".txt"}}\' list.txt; '
        "tail -1 list.txt > "
        f"last.txt"
    )
    return Chore(text, {"list.txt": lines(items)}, goals, command, keep=["list.txt"])


KINDS: list[tuple[int, Kind]] = [
    (1, _count_lines),
    (2, _sum_csv),
    (1, _settings),
    (1, _unique),
    (3, _access),
    (2, _replace),
    (3, _join),
    (2, _parts),
]
"""Kinds of chores with their difficulty, 1 to 3."""
