"""Kinds of chores about files: where they are, what they are called, which there should be."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from random import Random

from environments.builtin.shell.chores.chore import Chore, Kind, lines, names


def _rename(random: Random) -> Chore:
    old, new = random.sample(["jpeg", "jpg", "png", "tiff", "bmp", "webp"], 2)
    stem, digits = random.choice(["photo", "image", "scan", "shot"]), random.randint(2, 4)
    pictures = names(random, random.randint(4, 7))
    files = {f"album/{name}.{old}": f"picture of {name}\n" for name in pictures} | {
        "album/notes.txt": "do not touch\n"
    }
    goals = {
        f"album/{stem}-{n:0{digits}d}.{new}": f"picture of {name}\n"
        for n, name in enumerate(pictures, 1)
    }
    text = (
        f"Rename the .{old} files in album/ to {stem}-{1:0{digits}d}.{new}, "
        f"{stem}-{2:0{digits}d}.{new} and so on, in "
        f"the alphabetical order of their present names. Leave other files alone."
    )
    command = (
        f"cd album; n=0; for f in *.{old}; do n=$((n+1)); mv $f $(printf {stem}-%0{digits}d.{new} "
        "$n); done"
    )
    return Chore(
        text,
        files,
        goals,
        command,
        keep=["album/notes.txt"],
        gone=sorted(set(files) - {"album/notes.txt"}),
    )


def _sort_out(random: Random) -> Chore:
    kinds = random.sample(["txt", "csv", "log", "md", "ini", "sql"], 3)
    files, goals = {}, {}
    for name in names(random, random.randint(5, 9)):
        kind = random.choice(kinds)
        files[f"inbox/{name}.{kind}"] = goals[f"sorted/{kind}/{name}.{kind}"] = (
            f"{name} {random.randint(100, 999)}\n"
        )
    text = (
        "Move every file in inbox/ into sorted/EXT/, where EXT is its extension: inbox/a.txt to "
        "sorted/txt/a.txt."
    )
    command = "for f in inbox/*; do mkdir -p sorted/${f##*.}; mv $f sorted/${f##*.}/; done"
    return Chore(text, files, goals, command, gone=list(files))


def _scripts(random: Random) -> Chore:
    shell, stems = (
        random.choice(["/bin/sh", "/bin/bash", "/usr/bin/env bash"]),
        names(random, random.randint(5, 8)),
    )
    scripts = sorted(f"bin/{name}" for name in random.sample(stems, random.randint(2, 4)))
    files = {f"bin/{name}": f"{name} is data, not\n#!{shell}\n" for name in stems}
    files |= {path: f"#!{shell}\necho {path}\n" for path in scripts}
    text = (
        f"Make those files in bin/ executable whose first line is exactly #!{shell}. The others "
        "must not become "
        "executable. Write the number of files that you made executable to count.txt."
    )
    command = (
        f"cd bin; for f in *; do head -1 $f | grep -qx '#!{shell}' && chmod +x $f; done; "
        "find . -executable -type f | wc -l > ../count.txt"
    )
    goals = {**{path: files[path] for path in scripts}, "count.txt": f"{len(scripts)}\n"}
    keep = sorted(set(files) - set(scripts))
    return Chore(text, files, goals, command, keep=keep, executables=dict.fromkeys(scripts, True))


def _empty(random: Random) -> Chore:
    folders = names(random, 3)
    files = {
        f"{random.choice(folders)}/{name}.dat": ""
        if random.random() < 0.4
        else "x" * random.randint(1, 40)
        for name in names(random, random.randint(6, 10))
    }
    files[f"{folders[0]}/void.dat"], files[f"{folders[1]}/big.dat"] = (
        "",
        "y" * random.randint(60, 90),
    )
    hollow = sorted(path for path, text in files.items() if not text)
    goals = {
        "empty.txt": lines(hollow),
        "biggest.txt": f"{folders[1]}/big.dat\n",
        "total.txt": f"{sum(map(len, files.values()))}\n",
    }
    text = (
        "Look at the .dat files in the folders here. Write the paths of the empty ones, such as "
        "a/b.dat, to empty.txt, one a line in alphabetical order; the path of the biggest to "
        "biggest.txt; and the size of all of them together in bytes to total.txt. Then delete the "
        "empty ones."
    )
    command = (
        "find */ -name '*.dat' -empty | LC_ALL=C sort > empty.txt; find */ -name '*.dat' -printf "
        "'%s %p\\n' | sort -n | tail -1 | cut -d' ' -f2 > biggest.txt; cat */*.dat | wc -c > "
        "total.txt; find */ -name '*.dat' -empty -delete"
    )
    return Chore(text, files, goals, command, keep=sorted(set(files) - set(hollow)), gone=hollow)


def _trail(random: Random) -> Chore:
    rooms = random.sample(range(10, 100), random.randint(4, 7))
    code = f"{random.choice('ABCDEFGH')}{random.randint(1000, 9999)}"
    files = {
        f"rooms/{n}.txt": f"Nothing here but {name}.\n"
        for n, name in zip(range(100, 112), names(random, 12), strict=True)
    }
    for room, after in pairwise(rooms):
        files[f"rooms/{room}.txt"] = f"The trail goes on in rooms/{after}.txt\n"
    files[f"rooms/{rooms[-1]}.txt"] = f"The trail ends. The code is {code}\n"
    files["start.txt"] = f"The trail goes on in rooms/{rooms[0]}.txt\n"
    text = (
        "A trail begins in start.txt: every file on it names the next one, and the last one holds "
        "a code. Write the code to code.txt, the number of files on the trail, start.txt "
        "included, to length.txt, and their paths, one a line in the order of the trail, to "
        "trail.txt."
    )
    trail = ["start.txt", *(f"rooms/{room}.txt" for room in rooms)]
    goals = {"code.txt": f"{code}\n", "length.txt": f"{len(trail)}\n", "trail.txt": lines(trail)}
    command = (
        'f=start.txt; while [ -n "$f" ]; do echo $f >> trail.txt; last=$f; f=$(sed -n \'s/.* goes '
        "on in //p' $f); "
        "done; wc -l < trail.txt > length.txt; sed 's/.* is //' $last > code.txt"
    )
    return Chore(text, files, goals, command, keep=list(files))


def _checksums(random: Random) -> Chore:
    stems = names(random, random.randint(5, 8))
    files = {f"data/{name}.bin": f"{name} {random.randint(10**6, 10**7)}\n" for name in stems}
    damage = sorted(random.sample(list(files), random.randint(1, 3)))
    manifest = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}
    entries = {
        path: digest[::-1] if path in damage else digest for path, digest in manifest.items()
    }
    files["manifest.txt"] = lines([f"{digest}  {path}" for path, digest in entries.items()])
    intact = sorted(set(manifest) - set(damage))
    goals = {
        "broken.txt": lines(damage),
        "new-manifest.txt": lines([f"{manifest[path]}  {path}" for path in intact]),
        **{f"quarantine/{path.partition('/')[2]}": files[path] for path in damage},
    }
    text = (
        "manifest.txt lists the sha256 checksum that each file in data/ should have. Write the "
        "paths of the files whose checksum differs to broken.txt, one a line in alphabetical "
        "order, and move these files into quarantine/. Write a manifest of the same form for the "
        "files that remain in data/, in alphabetical order, to new-manifest.txt."
    )
    command = (
        "sha256sum -c manifest.txt 2>/dev/null | sed -n 's/: FAILED//p' | LC_ALL=C sort > "
        "broken.txt; mkdir "
        "quarantine; mv $(cat broken.txt) quarantine/; LC_ALL=C sha256sum data/* > new-manifest.txt"
    )
    return Chore(text, files, goals, command, keep=["manifest.txt", *intact], gone=damage)


def _backup(random: Random) -> Chore:
    suffix, stems = random.choice(["bak", "old", "orig"]), names(random, random.randint(4, 6))
    files: dict[str, str] = {}
    edits = sorted(random.sample(stems, random.randint(2, 3)))
    for name in stems:
        files[f"src/{name}.txt"] = f"{name}\nversion {random.randint(2, 9)}\n"
        files[f"src/{name}.txt.{suffix}"] = (
            f"{name}\nversion 1\n" if name in edits else files[f"src/{name}.txt"]
        )
    goals = {
        "changed.txt": lines([f"src/{name}.txt" for name in edits]),
        **{f"src/{name}.txt": files[f"src/{name}.txt.{suffix}"] for name in edits},
    }
    text = (
        f"Every file src/NAME.txt has a backup src/NAME.txt.{suffix}. Write the paths of those "
        "that differ from their backup to changed.txt, one a line in alphabetical order. Then put "
        "the backup's content back into these files. Delete the backups of the files that did not "
        "differ, and only those."
    )
    command = (
        f"for f in src/*.txt; do if cmp -s $f $f.{suffix}; then rm $f.{suffix}; else echo $f >> "
        f"changed.txt; cp $f.{suffix} $f; fi; done"
    )
    backups = [f"src/{name}.txt.{suffix}" if name in edits else f"src/{name}.txt" for name in stems]
    return Chore(
        text,
        files,
        goals,
        command,
        keep=backups,
        gone=[f"src/{n}.txt.{suffix}" for n in stems if n not in edits],
    )


KINDS: list[tuple[int, Kind]] = [
    (1, _rename),
    (1, _sort_out),
    (2, _scripts),
    (2, _empty),
    (2, _trail),
    (3, _checksums),
    (2, _backup),
]
"""Kinds of chores with their difficulty, 1 to 3."""
