"""What the shell answers to a line; knows nothing of terminals."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec

from audit.history import History, UnknownEpochError, check_epoch, metadata_at, metadata_from
from log.chain import NO_ENTRIES
from log.replay import Applied
from metadata.epoch import Epoch
from ringlog.commands.printing import short
from ringlog.commands.shell_tree import LINKS, NoPathError, Path, Tree, resolved, text_of

LINES_MAX = 2_000
"""What one line may print; more is said to be there."""

TREE_DEEP = 2
DEEP_MAX = 20
ENTRIES_SHOWN = 10
ENTRIES_SHOWN_MAX = 1_000


class ShellError(Exception):
    """The line cannot be answered. The message is one sentence for people."""


class Answer(msgspec.Struct, frozen=True):
    """For people, and for programs."""

    lines: list[str] = []
    plain: object = None


class Usage(msgspec.Struct, frozen=True):
    """`form` has its words in capitals, those that may be left out in brackets."""

    form: str
    does: str

    def takes(self, count: int) -> bool:
        given = self.form.split()[1:]
        least = sum(not word.startswith("[") for word in given)
        return least <= count <= len(given)


USAGES = {
    "ls": Usage("ls [PATH]", "list a folder; folders end in /, values follow ="),
    "cd": Usage("cd [PATH]", "go to a folder; / is the top, .. is one up"),
    "pwd": Usage("pwd", "say where you are"),
    "cat": Usage("cat [PATH]", "print a value, or all of a folder as JSON"),
    "tree": Usage("tree [PATH] [DEPTH]", f"print what is under a folder, {TREE_DEEP} deep"),
    "find": Usage("find PATTERN [PATH]", "paths by name (node*), or by value (state=joined)"),
    "diff": Usage("diff FROM [TO] [PATH]", "values that differ between two epochs"),
    "at": Usage("at [EPOCH]", "go to an epoch: 42, +1, -1 or tip; without one, say which it is"),
    "log": Usage("log [COUNT]", "the last entries up to this epoch"),
    "entry": Usage("entry [EPOCH]", "one entry, whole"),
    "help": Usage("help", "this list"),
    "exit": Usage("exit", "leave"),
}
"""All there is; `exit` is for whoever reads the lines."""


class Session:
    """Where somebody is: an epoch, and a folder of its metadata."""

    def __init__(self, history: History, applied: Applied) -> None:
        self.here: Path = ()
        self._history = history
        # An archive may begin behind another one.
        self._first: Epoch = getattr(history, "after", NO_ENTRIES).epoch
        self._applied = applied
        self._tree = Tree(applied.metadata)

    @property
    def epoch(self) -> Epoch:
        return self._applied.metadata.epoch

    @cached_property
    def commands(self) -> Mapping[str, Callable[..., Answer]]:
        return {
            "ls": self._ls,
            "cd": self._cd,
            "pwd": self._pwd,
            "cat": self._cat,
            "tree": self._print_tree,
            "find": self._find,
            "diff": self._diff,
            "at": self._at,
            "log": self._log,
            "entry": self._entry,
            "help": self._help,
        }

    @property
    def prompt(self) -> str:
        name = self._applied.metadata.cluster.name or "ringlog"
        return f"{name}@{self.epoch} {text_of(self.here)}> "

    def answer(self, line: str) -> Answer:
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise ShellError(f"The line cannot be read: {error}.") from error
        if not words:
            return Answer()
        command = self.commands.get(words[0])
        if command is None:
            raise ShellError(f"There is no command {words[0]}: see help.")
        usage = USAGES[words[0]]
        if not usage.takes(len(words) - 1):
            raise ShellError(f"Write {usage.form}.")
        try:
            return command(*words[1:])
        except (NoPathError, UnknownEpochError) as error:
            raise ShellError(str(error)) from error

    def completions(self, text: str) -> list[str]:
        """Paths that begin like this."""
        folder, slash, name = text.rpartition("/")
        try:
            found = self._tree.at(resolved(self.here, folder + slash))
        except NoPathError:
            return []
        names = [item for item in found if item.startswith(name)] if _is_folder(found) else []
        return [folder + slash + item for item in names]

    def _ls(self, path: str = ".") -> Answer:
        where = resolved(self.here, path)
        found = self._tree.at(where)
        if not _is_folder(found):
            return Answer([short(found)], found)
        items = {name: self._tree.at((*where, name)) for name in found}
        lines = [_line(name, item, is_top=not where) for name, item in items.items()]
        return Answer(_bounded(lines), list(items))

    def _cd(self, path: str = "/") -> Answer:
        where = resolved(self.here, path)
        if not _is_folder(self._tree.at(where)):
            raise ShellError(f"{text_of(where)} is a value: print it with cat.")
        self.here = where
        return Answer(plain=text_of(where))

    def _pwd(self) -> Answer:
        return Answer([text_of(self.here)], text_of(self.here))

    def _cat(self, path: str = ".") -> Answer:
        found = self._whole(resolved(self.here, path))
        if not _is_folder(found):
            return Answer([short(found)], found)
        text = msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
        return Answer(text.splitlines(), found)

    def _whole(self, where: Path) -> Any:  # noqa: ANN401 plain data
        found = self._tree.at(where)
        if where or not _is_folder(found):
            return found
        return {name: self._tree.at((name,)) for name in found if name not in LINKS}

    def _print_tree(self, path: str = ".", depth: str = str(TREE_DEEP)) -> Answer:
        where = resolved(self.here, path)
        deep = _number(depth, f"DEPTH is 1 to {DEEP_MAX}", 1, DEEP_MAX)
        walked = list(islice(self._tree.walk(where, deep), LINES_MAX + 1))
        lines = [
            "  " * (len(inner) - len(where) - 1) + _line(inner[-1], item, is_top=False)
            for inner, item in walked
        ]
        return Answer(_bounded(lines), [text_of(inner) for inner, _ in walked[:LINES_MAX]])

    def _find(self, pattern: str, path: str = ".") -> Answer:
        name, equals, value = pattern.partition("=")
        found = (
            inner
            for inner, item in self._tree.walk(resolved(self.here, path), DEEP_MAX)
            if fnmatchcase(inner[-1], name or "*")
            and (not equals or (not _is_folder(item) and fnmatchcase(short(item), value)))
        )
        paths = [text_of(inner) for inner in islice(found, LINES_MAX + 1)]
        return Answer(_bounded(paths), paths[:LINES_MAX])

    def _diff(self, start: str, end: str | None = None, path: str = ".") -> Answer:
        last = self.epoch if end is None else self._epoch_named(end)
        first, where = self._epoch_named(start), resolved(self.here, path)
        before, after = (
            Tree(self._metadata(epoch).metadata).leaves(where, DEEP_MAX) for epoch in (first, last)
        )
        lines, plain = [], []
        for inner in sorted(before.keys() | after.keys()):
            old, new = before.get(inner), after.get(inner)
            if old != new and inner not in (("epoch",), ("digest",)):
                lines.append(_difference(inner, inner in before, inner in after, old, new))
                plain.append({"path": text_of(inner), "before": old, "after": new})
        nothing = [f"Nothing differs between epochs {first} and {last}."]
        return Answer(_bounded(lines) or nothing, plain[:LINES_MAX])

    def _at(self, epoch: str | None = None) -> Answer:
        if epoch is not None:
            self._applied = self._metadata(self._epoch_named(epoch))
            self._tree = Tree(self._applied.metadata)
        said = [f"epoch {self.epoch}"]
        while not self._is_there(self.here):
            said = [f"epoch {self.epoch}, where there is no {text_of(self.here)}"]
            self.here = self.here[:-1]
        return Answer(said, self.epoch)

    def _log(self, count: str = str(ENTRIES_SHOWN)) -> Answer:
        wanted = _number(count, f"COUNT is 1 to {ENTRIES_SHOWN_MAX}", 1, ENTRIES_SHOWN_MAX)
        begin = max(self.epoch - wanted, self._first)
        entries = [item.entry for item in self._history.entries(Epoch(begin), self.epoch)]
        views = [
            {"epoch": item.epoch, "kind": item.kind, "actor": item.actor, "reason": item.reason}
            for item in entries
        ]
        lines = [
            f"{item.epoch:>8}  {item.kind:<26} {item.actor or '–'}  {item.reason or ''}".rstrip()
            for item in entries
        ]
        return Answer(lines, views)

    def _entry(self, epoch: str | None = None) -> Answer:
        from audit.blame import entry_at
        from ringlog.commands.audit_blame import entry_view

        named = self.epoch if epoch is None else self._epoch_named(epoch)
        if named == 0:
            raise ShellError("Epoch 0 is before the first entry.")
        view = entry_view(entry_at(self._history, named).entry)
        text = msgspec.json.format(msgspec.json.encode(view), indent=2).decode()
        return Answer(text.splitlines(), view)

    def _metadata(self, epoch: Epoch) -> Applied:
        if epoch >= self.epoch:
            return metadata_from(self._history, self._applied, epoch)
        return metadata_at(self._history, epoch)

    def _epoch_named(self, text: str) -> Epoch:
        if text == "tip":
            # A running cluster may have gone on.
            getattr(self._history, "look", lambda: None)()
            return self._history.tip.epoch
        relative = self.epoch if text[:1] in ("+", "-") else 0
        try:
            epoch = Epoch(relative + int(text))
        except ValueError:
            raise ShellError(f"{text} is no epoch: write 42, +1, -1 or tip.") from None
        check_epoch(self._history, epoch)
        return epoch

    def _is_there(self, path: Path) -> bool:
        try:
            return _is_folder(self._tree.at(path))
        except NoPathError:
            return False

    def _help(self) -> Answer:
        lines = [f"{usage.form:<24} {usage.does}" for usage in USAGES.values()]
        return Answer(lines, {name: usage.form for name, usage in USAGES.items()})


def _is_folder(found: object) -> bool:
    return isinstance(found, Mapping)


def _line(name: str, item: Any, *, is_top: bool) -> str:  # noqa: ANN401 plain data
    if is_top and name in LINKS:
        return f"{name} -> {text_of(LINKS[name])}"
    return f"{name}/" if _is_folder(item) else f"{name} = {short(item)}"


def _difference(path: Path, was: bool, is_now: bool, old: object, new: object) -> str:
    if was and is_now:
        return f"~ {text_of(path)}: {short(old)} -> {short(new)}"
    return f"+ {text_of(path)} = {short(new)}" if is_now else f"- {text_of(path)} = {short(old)}"


def _bounded(lines: Iterable[str]) -> list[str]:
    kept = list(islice(lines, LINES_MAX + 1))
    if len(kept) <= LINES_MAX:
        return kept
    return [*kept[:LINES_MAX], f"(only the first {LINES_MAX} lines: name a path further down)"]


def _number(text: str, says: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise ShellError(f"{says}, not {text}.")
    return int(text)
