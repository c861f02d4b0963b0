"""Conditions, with the vectors that the evaluator of the service has written."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from agent_trust._conditions import STEPS_MAX, Asked, Condition, UnknownForm, of_json
from agent_trust._pattern import Pattern

_path = Path(__file__).parents[3] / "test/vectors/conditions.jsonl"
_read, *_vectors = [json.loads(line) for line in _path.read_text().splitlines()]


class Vectors(unittest.TestCase):
    def test_truth_and_steps_are_those_of_the_service(self) -> None:
        self.assertGreater(len(_vectors), 500)
        variables = of_json(_read["variables"])
        for vector in _vectors:
            with self.subTest(vector["source"]):
                asked = Asked(variables, vector["now_ms"])
                truth = Condition(vector["form"]).evaluate(asked)
                self.assertEqual("error" if truth is None else truth, vector["truth"])
                steps = STEPS_MAX - asked.left
                self.assertEqual(None if asked.left < 0 else steps, vector["steps"])


_x, _yes = ["local", "x"], ["bool", True]
_deep: Any = _yes
for _ in range(100_000):
    _deep = ["list", _deep]


class Forms(unittest.TestCase):
    def test_what_is_no_form_is_refused(self) -> None:
        for form in ({"form": 2, "expr": _yes}, {"form": 1, "expr": _yes, "more": 1}, {"form": 1}, None):
            with self.assertRaises(UnknownForm):
                Condition(form)
        refused: list[Any] = [
            *([], None, "true", {}, [1], ["eval", "x"], ["null", 1], ["bool", "true"], ["bool"], ["bool", 1]),
            *(["call", "constructor", _yes], ["call"], ["call", "!_", _yes, _yes], ["call", "_+_", _yes]),
            *(["var", "process"], ["var", [1]], ["call", "size", ["var", "request"]], ["select", _yes, 1]),
            *(["and", ["all", "x", ["list"], _x], _x], ["all", "x", _x, _yes], ["all", "x y", _yes, _yes]),
            *(["each", "x", _yes, _yes], ["each", "x", _yes, None, None], ["filter", "x", _yes, None]),
            *(["int", "9223372036854775808"], ["int", "01"], ["int", 1], ["int", "-0"], ["int", "٣"]),
            *(["double", "1.50"], ["double", "Infinity"], ["double", "x"], ["double", "1_0"], ["double", 1]),
            *(["string", "\ud800"], ["string", "a" * 4097], ["string", "😀" * 2049], ["and", _yes]),
            *(["map", ["string", "a"]], ["matches", ["string", "a"], ["var", "user"], 1]),
            *(["call", "getHours", ["var", "now"], each] for each in (["var", "user"], ["string", "Mars/X"])),
            *(["matches", ["string", "a"], each, 1] for each in _refused_patterns),
            *(["list", *[_yes] * 500], _deep),
        ]
        for number, expr in enumerate(refused):
            with self.subTest(number, expr=repr(expr)[:80] if expr is not _deep else "deep"):
                with self.assertRaises(UnknownForm):
                    Condition({"form": 1, "expr": expr})

    def test_the_facts_that_a_form_reads(self) -> None:
        team = ["select", ["var", "claims"], "a/~b"]
        path = ["has", ["select", ["var", "request"], "arguments"], "path"]
        whole = ["index", ["select", ["var", "request"], "list"], ["var", "user"]]
        item = ["all", "x", ["select", ["select", ["var", "request"], "list"], "a"], ["has", _x, "y"]]
        gate = ["call", "_==_", ["select", ["var", "gate"], "id"], ["call", "string", ["var", "now"]]]
        reads = Condition({"form": 1, "expr": ["and", team, path, whole, item, gate]}).reads
        self.assertEqual(reads, ["/claims/a~1~0b", "/request/arguments/path", "/request/list", "/user"])

    def test_a_form_as_deep_as_it_may_be(self) -> None:
        for kind in (["call", "!_"], ["list"]):
            deep: Any = ["bool", True]
            for _ in range(498):
                deep = [*kind, deep]
            truth = Condition({"form": 1, "expr": deep}).evaluate(Asked({}, 0))
            self.assertIs(truth, True if kind[0] == "call" else None)

    def test_an_error_of_the_budget_is_one_of_all_that_follow(self) -> None:
        asked = Asked({"request": {"many": [1] * 101}}, 0)
        many = ["select", ["var", "request"], "many"]
        loop = ["all", "x", many, ["all", "y", many, _yes]]
        self.assertIsNone(Condition({"form": 1, "expr": ["or", loop, _yes]}).evaluate(asked))
        self.assertIsNone(Condition({"form": 1, "expr": _yes}).evaluate(asked))


_refused_patterns = (
    *("(?=a)", "(?<=a)", "(?#a)", "(a", "a)", "[a", "[b-a]", "[[:no:]]", "\\pL", "\\C", "\\1", "\\8", "\\"),
    *("\\Z", "a**", "a{2}{3}", "*", "|*", "(*)", "a{1001}", "a{3,2}", "((a{99}){99}){99}", "\\x{110000}"),
    *("\\xg", "é\\é"),
)


class Patterns(unittest.TestCase):
    def test_a_hostile_pattern_takes_a_time_that_is_linear_in_its_text(self) -> None:
        text = "a" * 5000
        for pattern in ("(a*)*b", "(a|aa)+$b", "(a+)+b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)(.*)(.*)(.*)b"):
            self.assertFalse(Pattern(pattern).test(text), pattern)
