"""The regular expressions of RE2, as `matches` of conditions takes them (docs/condition-form.md): all but the
classes of Unicode, in a time that is linear in the text."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from typing import Any

Ranges = list[tuple[int, int]]  # Of code points, with both ends.

_LAST = 0x10FFFF
_REPEATED_MAX = 1000
_STATES_MAX = 4096  # A pattern of a form has at most 512 instructions of RE2.
_CACHED_MAX = 1024
_PERL = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
_POSIX = {
    **{"alnum": "09AZaz", "alpha": "AZaz", "ascii": "\0\x7f", "blank": "\t\t  ", "cntrl": "\0\x1f\x7f\x7f"},
    **{"digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  "},
    **{"upper": "AZ", "word": "09AZ__az", "xdigit": "09AFaf"},
}
_LETTERS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}

_named = re.compile(r"\(\?P?<[A-Za-z0-9_]+>")
_flags = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_counted = re.compile(r"\{(0|[1-9][0-9]*)(,)?(0|[1-9][0-9]*)?\}")
_quoted = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_posix = re.compile(r"\[:(\^?)([a-z]+):\]")
_perl = re.compile(r"\\([dswDSW])")
_escape = re.compile(
    r"\\(?:x\{(?P<long>[0-9A-Fa-f]{1,8})\}|x(?P<hex>[0-9A-Fa-f]{2})|(?P<octal>0[0-7]{0,2}|[1-7][0-7]{1,2})"
    r"|(?P<letter>[afnrtv])|(?P<mark>[^A-Za-z0-9\x80-\U0010ffff]))"
)


class Unsupported(ValueError):
    """The pattern is none of RE2, or has what this module lacks."""


def _pairs(text: str) -> Ranges:
    return [(ord(low), ord(high)) for low, high in zip(text[::2], text[1::2])]


def _others(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return [*found, (start, _LAST)] if start <= _LAST else found


@functools.cache
def _cases() -> list[set[int]]:
    """Characters that differ by their case alone, where there are several (simple case folding)."""
    groups: dict[str, set[int]] = defaultdict(set)
    for code in range(0x1F000):  # Above are none.
        char = chr(code)
        folded = next((each for each in (char.casefold(), char.lower()) if len(each) == 1), char)
        groups[folded] |= {code, ord(folded)}
    # These differ by no letter, and Python folds each to several characters.
    pairs = [{0x390, 0x1FD3}, {0x3B0, 0x1FE3}, {0xFB05, 0xFB06}]
    return [*(each for each in groups.values() if len(each) > 1), *pairs]


def _fold(ranges: Ranges) -> Ranges:
    def is_in(code: int) -> bool:
        return any(low <= code <= high for low, high in ranges)

    return ranges + [(code, code) for each in _cases() if any(map(is_in, each)) for code in each]


class _Parser:
    """A tree: ("set", ranges), ("if", assertion), ("all" or "any", parts), ("repeat", part, min, max)."""

    def __init__(self, source: str) -> None:
        self._source, self._at = source, 0
        self._set = {"i": False, "m": False, "s": False, "U": False}

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._source, self._at)
        if found:
            self._at = found.end()
        return found

    def _next(self) -> str:
        if self._at == len(self._source):
            raise Unsupported("the pattern is not closed")
        self._at += 1
        return self._source[self._at - 1]

    def parse(self) -> Any:
        # Of each group that is open: the flags around it, alternatives that have ended, and the last one.
        groups: list[tuple[dict[str, bool], list[Any], list[Any]]] = [({}, [], [])]
        can_repeat = False
        while self._at < len(self._source):
            _, alternatives, items = groups[-1]
            was_repeatable, can_repeat = can_repeat, True
            char = self._source[self._at]
            if self._take(_named):
                groups.append((self._set, [], []))
                can_repeat = False
            elif char == "(" and (found := self._take(_flags)):
                on = {**dict.fromkeys(found[1], True), **dict.fromkeys(found[2] or "", False)}
                if found[3] == ":":
                    groups.append((self._set, [], []))
                self._set = {**self._set, **on}
                can_repeat = bool(groups[-1][2])
            elif quoted := self._take(_quoted):
                items.extend(self._char(ord(each)) for each in quoted[1])
                can_repeat = bool(items)
            elif (counted := self._take(_counted)) or char in "*+?":
                self._at += 0 if counted else 1
                self._at += self._source.startswith("?", self._at)  # Which match is found is all the same.
                if not was_repeatable:
                    raise Unsupported("nothing to repeat")
                items[-1] = self._repeated(items[-1], char, counted)
                can_repeat = False
            elif self._source.startswith("(?", self._at):
                raise Unsupported("a group that RE2 does not have")
            else:
                self._at += char in "()|"
                if char == "(":
                    groups.append((self._set, [], []))
                elif char == "|":
                    groups[-1] = (groups[-1][0], [*alternatives, _one_of("all", items)], [])
                elif char == ")":
                    if len(groups) == 1:
                        raise Unsupported("no group is open")
                    self._set = groups.pop()[0]
                    groups[-1][2].append(_one_of("any", [*alternatives, _one_of("all", items)]))
                else:
                    items.append(self._atom(char))
                can_repeat = char not in "(|"
        if len(groups) > 1:
            raise Unsupported("a group is not closed")
        return _one_of("any", [*groups[0][1], _one_of("all", groups[0][2])])

    def _repeated(self, item: Any, char: str, counted: re.Match[str] | None) -> Any:
        if counted is None:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            return ("repeat", item, least, most)
        least = int(counted[1])
        most = int(counted[3]) if counted[3] else None if counted[2] else least
        if least > (_REPEATED_MAX if most is None else most) or (most or 0) > _REPEATED_MAX:
            raise Unsupported("a repetition that RE2 does not have")
        return ("repeat", item, least, most)

    def _char(self, code: int) -> Any:
        return ("set", _fold([(code, code)]) if self._set["i"] else [(code, code)])

    def _atom(self, char: str) -> Any:
        if perl := self._take(_perl):
            return ("set", self._named_class(_PERL[perl[1].lower()], perl[1].isupper()))
        if char == "\\":
            pair = self._source[self._at : self._at + 2]
            if pair in ("\\A", "\\z", "\\b", "\\B"):
                self._at += 2
                return ("if", pair)
            return self._char(self._escaped())
        self._next()
        if char == "[":
            return ("set", self._class())
        if char in "^$":
            return ("if", char if self._set["m"] else {"^": "\\A", "$": "\\z"}[char])
        if char == ".":
            return ("set", [(0, _LAST)] if self._set["s"] else _others([(10, 10)]))
        return self._char(ord(char))

    def _escaped(self) -> int:
        found = self._take(_escape)
        if found is None:
            raise Unsupported("an escape sequence that this module does not have")
        digits = found["long"] or found["hex"]
        code = int(digits, 16) if digits else int(found["octal"], 8) if found["octal"] else None
        if code is None:
            code = _LETTERS[found["letter"]] if found["letter"] else ord(found["mark"])
        if code > _LAST:
            raise Unsupported("Unicode has no such character")
        return code

    def _named_class(self, pairs: str, is_negated: bool) -> Ranges:
        ranges = _fold(_pairs(pairs)) if self._set["i"] else _pairs(pairs)
        return _others(ranges) if is_negated else ranges

    def _class(self) -> Ranges:
        is_negated = self._source.startswith("^", self._at)
        self._at += is_negated
        ranges: Ranges = []
        is_first = True
        while is_first or not self._source.startswith("]", self._at):
            is_first = False
            if posix := self._take(_posix):
                if posix[2] not in _POSIX:
                    raise Unsupported("a class that RE2 does not have")
                ranges += self._named_class(_POSIX[posix[2]], bool(posix[1]))
            elif perl := self._take(_perl):
                ranges += self._named_class(_PERL[perl[1].lower()], perl[1].isupper())
            else:
                low = high = self._class_char()
                if self._source.startswith("-", self._at) and not self._source.startswith("-]", self._at):
                    self._at += 1
                    high = self._class_char()
                if high < low:
                    raise Unsupported("a range that ends before it begins")
                ranges += _fold([(low, high)]) if self._set["i"] else [(low, high)]
        self._at += 1
        return _others(ranges) if is_negated else ranges

    def _class_char(self) -> int:
        return self._escaped() if self._source.startswith("\\", self._at) else ord(self._next())


def _one_of(kind: str, parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else (kind, parts)


class Pattern:
    def __init__(self, source: str) -> None:
        # Of each state: what its character is in, what has to hold there, what comes next. The first: found.
        self._states: list[tuple[Ranges | None, str | None, list[int]]] = [(None, None, [])]
        self._left = _STATES_MAX
        self._start = self._add(_Parser(source).parse(), 0)
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int] | None] = {}

    def _state(self, ranges: Ranges | None, condition: str | None, after: list[int]) -> int:
        self._states.append((ranges, condition, after))
        return len(self._states) - 1

    def _add(self, tree: Any, after: int) -> int:
        """The state where it begins."""
        self._left -= 1
        if self._left < 0:
            raise Unsupported("the pattern is too large")
        if tree[0] == "set":
            return self._state(tree[1], None, [after])
        if tree[0] == "if":
            return self._state(None, tree[1], [after])
        if tree[0] == "any":
            return self._state(None, None, [self._add(each, after) for each in tree[1]])
        if tree[0] == "all":
            for each in reversed(tree[1]):
                after = self._add(each, after)
            return after
        _, part, least, most = tree
        if most is None:
            before = self._state(None, None, [after])
            self._states[before][2].append(self._add(part, before))
        else:
            before = after
            for _ in range(most - least):
                before = self._state(None, None, [self._add(part, before), after])
        for _ in range(least):
            before = self._add(part, before)
        return before

    def test(self, text: str) -> bool:
        """Whether some part of it matches."""
        at = frozenset({self._start})
        before = ""
        for after in [*text, ""]:
            key = at, before if before in ("", "\n") else "a" if _is_word(before) else "-", after
            if key not in self._steps:
                if len(self._steps) >= _CACHED_MAX:
                    self._steps.clear()
                self._steps[key] = self._step(at, before, after)
            found = self._steps[key]
            if found is None:
                return True
            at, before = found, after
        return False

    def _step(self, at: frozenset[int], before: str, after: str) -> frozenset[int] | None:
        """Where it is after that character. None: it has matched."""
        is_edge = _is_word(before) != _is_word(after)
        holds = {"\\A": not before, "\\z": not after, "\\b": is_edge, "\\B": not is_edge}
        holds |= {"^": before in ("", "\n"), "$": after in ("", "\n")}
        found, seen, waiting = {self._start}, set(at), list(at)
        while waiting:
            state = waiting.pop()
            if state == 0:
                return None
            ranges, condition, following = self._states[state]
            if ranges is not None:
                if after and any(low <= ord(after) <= high for low, high in ranges):
                    found.update(following)
            elif condition is None or holds[condition]:
                waiting.extend(each for each in following if each not in seen)
                seen.update(following)
        return frozenset(found)


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")
