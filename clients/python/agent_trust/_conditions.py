"""Conditions by their checked form, written from docs/condition-form.md alone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ._pattern import Pattern, Unsupported
from ._records import number_text

STEPS_MAX = 10_000

_NODES_MAX, _TEXT_MAX, _UNITS_PER_STEP = 500, 4096, 64
_PATTERNS_MAX, _PATTERN_STEPS_MAX, _NODES_PER_STEP = 16, 64, 50
_INT64 = range(-(2**63), 2**63)
_NS, _MS_NS = 1_000_000_000, 1_000_000
_YEARS_NS = range(-62_135_596_800 * _NS, 253_402_300_800 * _NS)  # 1 to 9999.
_BY_MEMBER = {"request", "passport", "claims", "gate"}  # The other two are values by themselves.
_ROOTS = _BY_MEMBER | {"user", "now"}
_LOOPS = {"all": 3, "exists": 3, "exists_one": 3, "filter": 3, "each": 4}
_SIZES: dict[str, Callable[[int], bool]] = {
    "index": lambda size: size == 2,
    "if": lambda size: size == 3,
    "and": lambda size: size >= 2,
    "or": lambda size: size >= 2,
    "map": lambda size: size % 2 == 0,
    "list": lambda size: True,
}
_decimal = re.compile("0|-?[1-9][0-9]{0,18}")
_name = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_zone = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})|[A-Za-z][A-Za-z0-9_+/-]*")
ABSENT = object()

Value = Any
Code = Callable[["Asked"], Value]


class UnknownForm(ValueError):
    """Not a form, or with something that this version cannot evaluate."""


class _Fails(Exception):
    """An error while a condition is evaluated."""


class _OverBudget(Exception):
    pass


class _Time(NamedTuple):
    kind: str  # "timestamp" or "duration".
    ns: int


class _Map(NamedTuple):
    """A map of an expression, by `_key`: each key with its value."""

    entries: dict[Any, tuple[Value, Value]]


_KINDS = {bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map", _Map: "map"}


class Asked:
    """What the conditions of one decision share. `variables`: see `of_json`."""

    def __init__(self, variables: dict[str, Any], now_ms: int) -> None:
        self.variables, self.now = variables, _Time("timestamp", now_ms * _MS_NS)
        self.left = STEPS_MAX
        self.locals: dict[int, Value] = {}

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _OverBudget

    def take_text(self, units: int, steps: int = 1) -> None:
        """A function takes so many steps for each 64 units begun."""
        self.take(-(-units // _UNITS_PER_STEP) * steps)

    def take_compared(self, units: int) -> None:
        """A comparison takes a step for each 64 that both sides have."""
        self.take(units // _UNITS_PER_STEP)


class Condition:
    """Raises UnknownForm. `reads`: pointers to the facts that it needs."""

    def __init__(self, form: Any) -> None:
        is_form = isinstance(form, dict) and form.keys() == {"form", "expr"} and form["form"] == 1
        _demand(is_form and form["form"] is not True)
        compiler = _Compiler()
        try:
            self._code = compiler.compile(form["expr"])
        except Unsupported as fault:
            raise UnknownForm(str(fault)) from fault
        reads = sorted(compiler.reads)
        self.reads = [each for each in reads if not any(each.startswith(other + "/") for other in reads)]

    def evaluate(self, asked: Asked) -> bool | None:
        """None: an error."""
        try:
            asked.take(0)
            value = self._code(asked)
        except (_Fails, _OverBudget):
            return None
        return value if isinstance(value, bool) else None


def of_json(value: Any) -> Value:
    """With whole numbers up to 2^53 - 1 as int and all others as float, whichever way they were written."""
    if isinstance(value, dict):
        return {name: of_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [of_json(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _demand(holds: object) -> None:
    if not holds:
        raise UnknownForm("no form of this version")


def _units(text: str) -> int:
    """Of UTF-16."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _is_text(text: Any) -> bool:
    is_whole = isinstance(text, str) and not any("\ud800" <= char <= "\udfff" for char in text)
    return is_whole and _units(text) <= _TEXT_MAX


class _Compiler:
    """Makes functions of nodes, innermost first and without recursion: a form may be 500 deep."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self._left, self._patterns_left = _NODES_MAX, _PATTERNS_MAX

    def compile(self, expr: Any) -> Code:
        """A tree leans on the stack once for each of its levels when it is evaluated, and not here."""
        waiting: list[tuple[Any, tuple[str, ...], int | None]] = [(expr, (), None)]
        done: list[Any] = []
        while waiting:
            node, scope, count = waiting.pop()
            if count is None:
                parts = self._parts(node, scope)
                waiting.append((node, scope, len(parts)))
                waiting.extend((part, inside, None) for part, inside in reversed(parts))
            else:
                at = len(done) - count
                done[at:] = [self._code(node, scope, done[at:])]
        (code,) = done
        return code  # type: ignore[no-any-return]

    def _parts(self, node: Any, scope: tuple[str, ...]) -> list[tuple[Any, tuple[str, ...]]]:
        """The nodes that it is made of, each with the names around it; raises UnknownForm."""
        self._left -= 1
        _demand(self._left >= 0 and isinstance(node, list) and node and isinstance(node[0], str))
        kind, rest = node[0], node[1:]
        if kind in ("select", "has"):
            _demand(len(rest) == 2 and _is_text(rest[1]) and rest[0] != ["var", "user"])
            return [] if _path(node) else [(rest[0], scope)]
        if kind in _LOOPS:
            _demand(len(rest) == _LOOPS[kind] and _is_text(rest[0]) and _name.fullmatch(rest[0]))
            bodies = rest[3:] if kind == "each" and rest[2] is None else rest[2:]
            return [(rest[1], scope), *((each, (*scope, rest[0])) for each in bodies)]
        if kind == "matches":
            _demand(len(rest) == 3 and _is_text(rest[1]) and type(rest[2]) is int)
            self._patterns_left -= 1
            _demand(0 < rest[2] <= _PATTERN_STEPS_MAX and self._patterns_left >= 0)
            return [(rest[0], scope)]
        if kind == "call":
            _demand(rest and isinstance(rest[0], str) and len(rest) - 1 in _ARITIES.get(rest[0], ()))
            return [(each, scope) for each in rest[1:]]
        if kind in _SIZES:
            _demand(_SIZES[kind](len(rest)))
            return [(each, scope) for each in rest]
        _demand(len(rest) == (0 if kind == "null" else 1))
        return []

    def _code(self, node: list[Any], scope: tuple[str, ...], parts: list[Code]) -> Code:
        kind, rest = node[0], node[1:]
        if kind in ("select", "has"):
            return self._member(node, parts)
        if kind in _LOOPS:
            slot, steps = len(scope), -(-_nodes(rest[2:]) // _NODES_PER_STEP)
            if kind == "filter":
                return _each(parts[0], parts[1], lambda asked: asked.locals[slot], slot, steps)
            if kind == "each":
                return _each(parts[0], parts[1] if rest[2] else lambda asked: True, parts[-1], slot, steps)
            return _quantifier(kind, parts[0], parts[1], slot, steps)
        if kind == "matches":
            return _matches(parts[0], rest[1], rest[2])
        if kind == "call":
            return _call(rest[0], rest[1:], parts)
        if kind in _SIZES:
            return _OPERATORS[kind](parts)
        if kind == "local":
            _demand(rest[0] in scope)
            slot = len(scope) - 1 - scope[::-1].index(rest[0])
            return lambda asked: asked.locals[slot]
        if kind == "var":
            _demand(isinstance(rest[0], str) and rest[0] in _ROOTS - _BY_MEMBER)
            if rest[0] == "now":
                return lambda asked: asked.now
            self.reads.add("/user")
            return lambda asked: asked.variables["user"]
        value = _literal(kind, *rest)
        return lambda asked: value

    def _member(self, node: list[Any], parts: list[Code]) -> Code:
        """A member of a variable at any depth is one fact: it is absent as soon as anything before it is."""
        is_test, name = node[0] == "has", node[2]
        path = _path(node)
        if path is None:
            operand = parts[0]

            def of_value(asked: Asked) -> Value:
                value = _entry(_map_of(operand(asked)), name)
                return value is not ABSENT if is_test else _present(value)

            return of_value
        self._left -= len(path) - 2 + (path[0] not in _BY_MEMBER)
        _demand(self._left >= 0 and path[0] in _ROOTS and all(map(_is_text, path)))
        if path[0] == "now":
            return _fail
        if path[0] != "gate":
            self.reads.add("".join("/" + each.replace("~", "~0").replace("/", "~1") for each in path))

        def of_variable(asked: Asked) -> Value:
            value: Value = asked.variables
            for each in path:
                value = value.get(each, ABSENT) if isinstance(value, dict) else ABSENT
            return value is not ABSENT if is_test else _present(value)

        return of_variable


def _nodes(open_nodes: list[Any]) -> int:
    """What is a list is a node."""
    count, open_nodes = 0, list(open_nodes)
    while open_nodes:
        each = open_nodes.pop()
        if isinstance(each, list):
            count += 1
            open_nodes.extend(each)
    return count


def _path(node: list[Any]) -> list[Any] | None:
    """Names from the variable on. None: it is no member of a variable."""
    names = [node[2]]
    node = node[1]
    while isinstance(node, list) and len(node) == 3 and node[0] == "select":
        names.append(node[2])
        node = node[1]
    is_variable = isinstance(node, list) and len(node) == 2 and node[0] == "var" and isinstance(node[1], str)
    return [node[1], *reversed(names)] if is_variable else None


def _literal(kind: str, value: Any = None) -> Value:
    if kind == "bool":
        _demand(isinstance(value, bool))
    elif kind == "int":
        _demand(_is_text(value) and _decimal.fullmatch(value) and int(value) in _INT64)
        return int(value)
    elif kind == "double":
        try:
            _demand(_is_text(value) and math.isfinite(float(value)) and number_text(float(value)) == value)
        except ValueError as fault:
            raise UnknownForm("no number") from fault
        return float(value)
    elif kind == "string":
        _demand(_is_text(value))
    else:
        _demand(kind == "null")
    return value


def _fail(*_: Any) -> Value:
    raise _Fails


def _present(value: Value) -> Value:
    return _fail() if value is ABSENT else value


def _kind(value: Value) -> str:
    if isinstance(value, _Time):
        return value.kind
    return _KINDS.get(type(value), "null")


def _map_of(value: Value) -> Value:
    return value if isinstance(value, dict | _Map) else _fail()


def _key(value: Value) -> Any:
    """A double finds the int that it equals. None: no key."""
    if isinstance(value, float):
        return ("int", int(value)) if value.is_integer() else None
    return (_kind(value), value) if isinstance(value, bool | int | str) else None


def _entry(of: Value, key: Value) -> Value:
    if isinstance(of, dict):
        return of.get(key, ABSENT) if isinstance(key, str) else ABSENT
    return of.entries.get(_key(key), (None, ABSENT))[1]


def _keys(of: Value) -> list[Value]:
    if isinstance(of, dict):
        return sorted(of, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return [key for key, _ in of.entries.values()]


def _size_of(of: Value) -> int:
    return len(of) if isinstance(of, dict) else len(of.entries)


def _list(parts: list[Code]) -> Code:
    def of_items(asked: Asked) -> Value:
        items = []
        for each in parts:
            items.append(each(asked))
        return items

    return of_items


def _map(parts: list[Code]) -> Code:
    def of_entries(asked: Asked) -> Value:
        entries: dict[Any, tuple[Value, Value]] = {}
        for at in range(0, len(parts), 2):
            key, value = parts[at](asked), parts[at + 1](asked)
            if isinstance(key, float) or _key(key) is None or _key(key) in entries:
                raise _Fails
            entries[_key(key)] = key, value
        return _Map(entries)

    return of_entries


def _logic(deciding: bool, parts: list[Code]) -> Code:
    """One term decides although another one is an error, in either order."""

    def of_terms(asked: Asked) -> Value:
        fails = False
        for each in parts:
            try:
                term = each(asked)
            except _Fails:
                term = None
            if term is deciding:
                return deciding
            fails = fails or not isinstance(term, bool)
        return _fail() if fails else not deciding

    return of_terms


def _if(parts: list[Code]) -> Code:
    test, yes, no = parts

    def of_branch(asked: Asked) -> Value:
        found = test(asked)
        if not isinstance(found, bool):
            raise _Fails
        return yes(asked) if found else no(asked)

    return of_branch


def _index(parts: list[Code]) -> Code:
    operand, key = parts

    def of_item(asked: Asked) -> Value:
        value, at = operand(asked), key(asked)
        if not isinstance(value, list):
            return _present(_entry(_map_of(value), at))
        kind, place = _key(at) or ("", None)
        return value[place] if kind == "int" and 0 <= place < len(value) else _fail()

    return of_item


_OPERATORS: dict[str, Callable[[list[Code]], Code]] = {
    "and": lambda parts: _logic(False, parts),
    "or": lambda parts: _logic(True, parts),
    **{"if": _if, "index": _index, "list": _list, "map": _map},
}


def _items(value: Value, asked: Asked) -> list[Value]:
    if isinstance(value, list):
        return value
    asked.take(_size_of(_map_of(value)))
    return _keys(value)


def _quantifier(kind: str, operand: Code, test: Code, slot: int, steps: int) -> Code:
    def of_range(asked: Asked) -> Value:
        fails, found = False, 0
        for item in _items(operand(asked), asked):
            asked.take(steps)
            asked.locals[slot] = item
            try:
                answer = test(asked)
            except _Fails:
                answer = None
            if not isinstance(answer, bool):
                fails = True
            elif kind != "exists_one" and answer is (kind == "exists"):
                return answer
            if fails and kind == "exists_one":
                raise _Fails
            found += answer is True
        return _fail() if fails else found == 1 if kind == "exists_one" else kind == "all"

    return of_range


def _each(operand: Code, test: Code, step: Code, slot: int, steps: int) -> Code:
    def of_range(asked: Asked) -> Value:
        items = []
        for item in _items(operand(asked), asked):
            asked.take(steps)
            asked.locals[slot] = item
            is_taken = test(asked)
            if is_taken is True:
                items.append(step(asked))
            elif is_taken is not False:
                raise _Fails
        return items

    return of_range


def _equals(left: Value, right: Value, asked: Asked) -> bool:
    kind, other = _kind(left), _kind(right)
    if kind in ("int", "double") and other in ("int", "double"):
        return bool(left == right)
    if kind != other:
        return False
    if kind == "string":
        units = _units(left)
        if units != _units(right):
            return False
        asked.take_compared(units)
    elif kind == "list":
        if len(left) != len(right):
            return False
        for at, item in enumerate(left):
            asked.take(1)
            if not _equals(item, right[at], asked):
                return False
        return True
    elif kind == "map":
        asked.take(_size_of(left) + _size_of(right))
        if _size_of(left) != _size_of(right):
            return False
        for key in _keys(left):
            value = _entry(right, key)
            if value is ABSENT or not _equals(_entry(left, key), value, asked):
                return False
        return True
    return bool(left == right)


def _in(item: Value, of: Value, asked: Asked) -> bool:
    if not isinstance(of, list):
        is_key = isinstance(item, bool | int | float | str)
        return _entry(_map_of(of), item) is not ABSENT if is_key else _fail()
    for each in of:
        asked.take(1)
        if _equals(item, each, asked):
            return True
    return False


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[Value, Value, Asked], bool]:
    def apply(left: Value, right: Value, asked: Asked) -> bool:
        kinds = {_kind(left), _kind(right)}
        if kinds == {"string"}:
            asked.take_compared(min(_units(left), _units(right)))
        elif kinds == {"int", "double"}:
            left, right = float(left), float(right)
        elif len(kinds) > 1 or kinds <= {"null", "list", "map"}:
            raise _Fails
        return holds(left, right)

    return apply


def _int(value: int) -> int:
    return value if value in _INT64 else _fail()


def _time(kind: str, ns: int) -> _Time:
    return _Time(kind, ns) if ns in (_YEARS_NS if kind == "timestamp" else _INT64) else _fail()


def _arithmetic(apply: Callable[[Any, Any], Any]) -> Callable[[Value, Value, Asked], Value]:
    def of_two(left: Value, right: Value, asked: Asked) -> Value:
        kinds = _kind(left), _kind(right)
        if kinds == ("int", "int"):
            return _int(apply(left, right))
        return apply(left, right) if kinds == ("double", "double") else _fail()

    return of_two


_sum, _difference = _arithmetic(lambda a, b: a + b), _arithmetic(lambda a, b: a - b)


def _add(left: Value, right: Value, asked: Asked) -> Value:
    kinds = _kind(left), _kind(right)
    if kinds == ("string", "string"):
        asked.take_text(_units(left) + _units(right))
        return left + right
    if kinds == ("list", "list"):
        asked.take(len(left) + len(right))
        return left + right
    if "duration" in kinds and set(kinds) <= {"duration", "timestamp"}:
        return _time("timestamp" if "timestamp" in kinds else "duration", left.ns + right.ns)
    return _sum(left, right, asked)


def _subtract(left: Value, right: Value, asked: Asked) -> Value:
    kinds = _kind(left), _kind(right)
    if kinds in (("timestamp", "timestamp"), ("duration", "duration")):
        return _time("duration", left.ns - right.ns)
    if kinds == ("timestamp", "duration"):
        return _time("timestamp", left.ns - right.ns)
    return _difference(left, right, asked)


def _quotient(left: int, right: int) -> int:
    """Towards zero."""
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _divide(left: Value, right: Value, asked: Asked) -> Value:
    kinds = _kind(left), _kind(right)
    if kinds == ("int", "int"):
        return _int(_quotient(left, right)) if right else _fail()
    if kinds != ("double", "double"):
        raise _Fails
    if right:
        return left / right
    is_none = not left or math.isnan(left)
    return math.nan if is_none else math.copysign(math.inf, left) * math.copysign(1, right)


def _remainder(left: Value, right: Value, asked: Asked) -> Value:
    if (_kind(left), _kind(right)) != ("int", "int") or not right:
        raise _Fails
    return _int(left - right * _quotient(left, right))


def _negate(value: Value, asked: Asked) -> Value:
    return _int(-value) if _kind(value) == "int" else -value if isinstance(value, float) else _fail()


def _size(value: Value, asked: Asked) -> Value:
    if isinstance(value, str):
        asked.take_text(_units(value))
    elif not isinstance(value, list):
        asked.take(_size_of(_map_of(value)))
        return _size_of(value)
    return len(value)


def _of_text(
    holds: Callable[[str, str], bool], units: Callable[[str, str], int]
) -> Callable[[Value, Value, Asked], Value]:
    def apply(text: Value, part: Value, asked: Asked) -> Value:
        if not isinstance(text, str) or not isinstance(part, str):
            raise _Fails
        asked.take_text(units(text, part))
        return holds(text, part)

    return apply


def _to_bool(value: Value) -> Value:
    if isinstance(value, bool):
        return value
    is_true = isinstance(value, str) and value in ("true", "True", "TRUE", "t", "1")
    return is_true or (False if value in ("false", "False", "FALSE", "f", "0") else _fail())


def _to_int(value: Value) -> Value:
    kind = _kind(value)
    if kind == "int":
        return value
    if kind == "double":
        return int(value) if -(2.0**63) < value < 2.0**63 else _fail()
    if kind == "timestamp":
        return value.ns // _NS
    found = re.fullmatch("([+-]?)0*([0-9]{1,19})", value) if kind == "string" else None
    return _int(int(found[1] + found[2])) if found else _fail()


def _to_double(value: Value) -> Value:
    if isinstance(value, str):
        number = r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|Infinity)|NaN"
        return float(value) if re.fullmatch(number, value, re.ASCII) else _fail()
    return float(value) if _kind(value) in ("int", "double") else _fail()


def _fraction(ns: int) -> str:
    """With three, six or nine digits, or none."""
    digits = re.sub("(000){1,3}$", "", f"{ns % _NS:09}")
    return f".{digits}" if digits else ""


def _to_string(value: Value) -> Value:
    kind = _kind(value)
    if kind == "timestamp":
        day, years, second = _local(value.ns)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        return f"{day.year + years:04}-{day.month:02}-{day.day:02}T{clock}{_fraction(value.ns)}Z"
    if kind == "duration":
        ns = abs(value.ns)
        return f"{'-' * (value.ns < 0)}{ns // _NS}{_fraction(ns)}s"
    if kind == "double":
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return number_text(value + 0.0)  # Zero has no sign.
    return str(value).lower() if kind in ("bool", "int") else value if kind == "string" else _fail()


_rfc3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


def _to_timestamp(value: Value) -> Value:
    if _kind(value) == "timestamp":
        return value
    if _kind(value) == "int":
        return _time("timestamp", value * _NS)
    found = _rfc3339.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _Fails
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    offset = int(found[9] or 0) * 60 + int(found[10] or 0)
    if int(found[9] or 0) > 23 or int(found[10] or 0) > 59:
        raise _Fails
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc) - _EPOCH
    except ValueError as fault:
        raise _Fails from fault
    seconds = at // timedelta(seconds=1) - offset * (-60 if found[8] == "-" else 60)
    return _time("timestamp", seconds * _NS + int((found[7] or "").ljust(9, "0")))


_UNITS_NS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": _MS_NS}
_UNITS_NS |= {"s": _NS, "m": 60 * _NS, "h": 3600 * _NS}
_part = r"(\d+(?:\.\d*)?|\.\d+)(ns|[uµμm]s|[smh])"


def _to_duration(value: Value) -> Value:
    if _kind(value) == "duration":
        return value
    if not isinstance(value, str) or _units(value) > 128:
        raise _Fails
    if not re.fullmatch(rf"[+-]?(0|({_part})+)", value, re.ASCII):
        raise _Fails
    ns = 0
    for digits, unit in re.findall(_part, value, re.ASCII):
        before, _, after = digits.partition(".")
        ns += int(before or 0) * _UNITS_NS[unit] + int(after or 0) * _UNITS_NS[unit] // 10 ** len(after)
    return _time("duration", -ns if value.startswith("-") else ns)


def _conversion(convert: Callable[[Value], Value]) -> Callable[[Value, Asked], Value]:
    def apply(value: Value, asked: Asked) -> Value:
        asked.take_text(max(_units(value), 1) if isinstance(value, str) else 1)
        return convert(value)

    return apply


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CYCLE_DAYS = 146_097  # Of 400 years, which are whole weeks.


def _local(ns: int) -> tuple[date, int, int]:
    """A day of a year from 1 to 400, how many years it is later, and the second of it."""
    days, second = divmod(ns // _NS, 86_400)
    cycles, rest = divmod(days + _EPOCH.toordinal() - 1, _CYCLE_DAYS)
    day = date.fromordinal(rest + 1)
    return day, cycles * 400, second


def _offsets(zone: str) -> Callable[[int], int]:
    """Seconds east of UTC at a second. Raises UnknownForm."""
    found = _zone.fullmatch(zone)
    _demand(found)
    sign, hours, minutes = found.groups() if found else ("", "", "")
    if hours:
        _demand(int(hours) < 24 and int(minutes) < 60)
        offset = (int(hours) * 60 + int(minutes)) * (-60 if sign == "-" else 60)
        return lambda second: offset
    if zone == "UTC":
        return lambda second: 0
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, OSError) as fault:
        named = {each.lower(): each for each in available_timezones()}.get(zone.lower())
        if named is None:
            raise UnknownForm(f"this machine does not know the time zone {zone}") from fault
        info = ZoneInfo(named)

    def offset_at(second: int) -> int:
        at = _EPOCH + timedelta(seconds=min(max(second, -62_135_000_000), 253_402_000_000))
        return (at.astimezone(info).utcoffset() or timedelta()) // timedelta(seconds=1)

    return offset_at


_FIELDS: dict[str, Callable[[date, int, int, int], int]] = {
    "getFullYear": lambda day, years, second, ms: day.year + years,
    "getMonth": lambda day, years, second, ms: day.month - 1,
    "getDate": lambda day, years, second, ms: day.day,
    "getDayOfMonth": lambda day, years, second, ms: day.day - 1,
    "getDayOfWeek": lambda day, years, second, ms: day.isoweekday() % 7,
    "getDayOfYear": lambda day, years, second, ms: day.timetuple().tm_yday - 1,
    "getHours": lambda day, years, second, ms: second // 3600,
    "getMinutes": lambda day, years, second, ms: second // 60 % 60,
    "getSeconds": lambda day, years, second, ms: second % 60,
    "getMilliseconds": lambda day, years, second, ms: ms,
}
_DIVISORS = {"getHours": 3600 * _NS, "getMinutes": 60 * _NS, "getSeconds": _NS, "getMilliseconds": _MS_NS}


def _time_field(name: str, operand: Code, zone: str | None) -> Code:
    offset_at, field, divisor = _offsets(zone or "UTC"), _FIELDS[name], _DIVISORS.get(name)

    def of_time(asked: Asked) -> Value:
        value = operand(asked)
        kind = _kind(value)
        asked.take(zone is not None)
        if kind == "timestamp":
            day, years, second = _local(value.ns + offset_at(value.ns // _NS) * _NS)
            return field(day, years, second, value.ns // _MS_NS % 1000)
        if kind != "duration" or divisor is None:
            raise _Fails
        whole = _quotient(value.ns, divisor)
        return whole - 1000 * _quotient(whole, 1000) if divisor == _MS_NS else whole

    return of_time


def _not(value: Value, asked: Asked) -> Value:
    return not value if isinstance(value, bool) else _fail()


_UNARY: dict[str, Callable[[Value, Asked], Value]] = {
    **{"!_": _not, "-_": _negate, "size": _size, "bool": _conversion(_to_bool), "int": _conversion(_to_int)},
    **{"double": _conversion(_to_double), "string": _conversion(_to_string)},
    **{"timestamp": _conversion(_to_timestamp), "duration": _conversion(_to_duration)},
}
_BINARY: dict[str, Callable[[Value, Value, Asked], Value]] = {
    **{"_==_": _equals, "_!=_": lambda left, right, asked: not _equals(left, right, asked), "@in": _in},
    **{"_<_": _ordered(lambda a, b: a < b), "_<=_": _ordered(lambda a, b: a <= b)},
    **{"_>_": _ordered(lambda a, b: a > b), "_>=_": _ordered(lambda a, b: a >= b)},
    **{"_+_": _add, "_-_": _subtract, "_*_": _arithmetic(lambda a, b: a * b)},
    **{"_/_": _divide, "_%_": _remainder},
    "startsWith": _of_text(str.startswith, lambda text, part: _units(part)),
    "endsWith": _of_text(str.endswith, lambda text, part: _units(part)),
    "contains": _of_text(str.__contains__, lambda text, part: _units(text) * max(1, -(-_units(part) // 64))),
}
_ARITIES = {
    **dict.fromkeys(_UNARY, (1,)),
    **dict.fromkeys(_BINARY, (2,)),
    **dict.fromkeys(_FIELDS, (1, 2)),
}


def _call(name: str, args: list[Any], parts: list[Code]) -> Code:
    if name in _UNARY:
        unary, operand = _UNARY[name], parts[0]
        return lambda asked: unary(operand(asked), asked)
    if name in _BINARY:
        binary, (left, right) = _BINARY[name], parts
        return lambda asked: binary(left(asked), right(asked), asked)
    _demand(len(args) == 1 or args[1][0] == "string")
    return _time_field(name, parts[0], args[1][1] if len(args) == 2 else None)


def _matches(text: Code, source: str, steps: int) -> Code:
    pattern = Pattern(source)

    def of_text(asked: Asked) -> Value:
        value = text(asked)
        if not isinstance(value, str):
            raise _Fails
        asked.take_text(_units(value), steps)
        return pattern.test(value)

    return of_text
