import { describe, expect, it } from 'vitest';
import { checkCondition, showFault } from '../../../shared/condition/check-condition.ts';

const faultOf = (source: string) => {
  const checked = checkCondition(source);
  return 'form' in checked ? 'none' : `${checked.line}:${checked.column}: ${checked.message}`;
};

describe('checkCondition', () => {
  it.each([
    ['request.a ==', '1:13: expected a value, found the end'],
    ['request.a = 1', "1:11: '=' is no part of CEL; compare by '=='"],
    ['request.a == 1 request.b', "1:16: expected an operator or the end, found 'request'"],
    ['(request.a == 1', "1:16: expected ')' or an operator, found the end"],
    ['request.a in [1, 2', "1:19: expected ',' or ']', found the end"],
    ['request.a ==\n  "é😀" + 1', "2:8: '+' does not take string and int"],
    ['"é😀" == 1', "1:6: '==' does not take string and int"],
    ['request.a == "x\ny"', '1:14: the string is not closed'],
    ['request.a == "\\q"', '1:15: CEL has no such escape sequence in a string'],
    ['request.a == "\\ud800"', '1:15: Unicode has no such character'],
    ['request.a == 1u', '1:14: uint is not available; write an int'],
    ['request.a == b"x"', '1:14: bytes are not available; write a string'],
    ['request.a == 9223372036854775808', '1:14: the int does not fit into 64 bits'],
    ['request.a == 1e999', '1:14: the double is too large'],
    ['path == 1', "1:1: there is no variable 'path', only request, passport, claims, gate, user, now"],
    [
      'passport.name == "x"',
      "1:10: there is no 'name', only id, agent_id, trust_tier, permissions, issuer, owner, wallet_id",
    ],
    ['request == null', "1:1: 'request' is read by its members: request.x, or 'x' in request"],
    ['claims[user] == 1', "1:1: 'claims' is read by its members: claims.x, or 'x' in claims"],
    ['type(request.a) == int', '1:1: there is no function type(): a value of the wrong type is an error'],
    ['request.a.lowerAscii() == ""', "1:11: there is no function lowerAscii(): match with '(?i)'"],
    ['startsWith(request.a, "x")', '1:1: startsWith() is called as x.startsWith()'],
    ['request.a.int() == 1', '1:11: int() is called as int(x)'],
    ['request.a.startsWith()', '1:11: startsWith() does not take dyn'],
    ['passport.id.matches(request.a)', '1:29: the pattern has to be a literal'],
    ["passport.id.matches('(?=a)')", /^1:21: the pattern is not RE2's: /],
    ["passport.id.matches('(a{900}){9}')", /^1:21: the pattern /],
    [`passport.id.matches('${'a'.repeat(257)}')`, '1:21: the pattern is longer than 256 characters'],
    ["now.getHours('Mars/Base') == 1", '1:14: there is no such time zone'],
    ['now.getHours(request.zone) == 1', '1:22: the time zone has to be a literal'],
    ['has(request)', '1:1: has() takes one member, such as has(request.amount_micro_usd)'],
    ['request.a.all(1, true)', '1:11: all() takes the name of an item and what is asked of it'],
    ['passport.id.all(x, true)', '1:13: all() goes through a list or a map, not a string'],
    ['passport.permissions.all(p, p + 1 == 2)', "1:31: '+' does not take string and int"],
    ['1 in passport.permissions', '1:3: a int is never in a list of string'],
    ['passport.id && true', "1:10: '&&' takes a bool, not a string"],
    ['passport.id', '1:10: a condition is a bool, this is a string'],
    ['while == 1', "1:1: 'while' is a reserved word of CEL"],
    ['', '1:1: expected a value, found the end'],
    ['\ud800', '1:1: not Unicode'],
    ["{1.5: 'a'}[1] == 'a'", '1:2: a double is no key of a map'],
    ['Msg{a: 1}.a == 1', "1:4: expected an operator or the end, found '{'"],
  ])('refuses %s', (source, fault) => {
    if (typeof fault === 'string') expect(faultOf(source)).toBe(fault);
    else expect(faultOf(source)).toMatch(fault);
  });

  it('shows the place of a fault below its line', () => {
    const source = "request.a == 1 &&\n\trequest.b == '😀' + 1";
    const checked = checkCondition(source);
    expect('form' in checked ? '' : showFault(source, checked)).toBe(
      "2:19: '+' does not take string and int\n  \trequest.b == '😀' + 1\n  \t                 ^",
    );
  });

  it('takes what is just within its bounds', () => {
    expect(faultOf(`${'('.repeat(99)}true${')'.repeat(99)}`)).toBe('none');
    expect(faultOf(`${'('.repeat(100)}true${')'.repeat(100)}`)).toBe('1:101: nested more than 100 deep');
    expect(faultOf(`true${'||true'.repeat(249)}`)).toBe('none');
    expect(faultOf(`true${'||true'.repeat(250)}`)).toBe('1:1499: more than 500 nodes');
    expect(faultOf(`true //${'x'.repeat(4089)}`)).toBe('none');
    expect(faultOf(`true //${'x'.repeat(4090)}`)).toBe('1:1: longer than 4096 bytes');
    expect(faultOf(`passport.id.matches('${'a'.repeat(256)}')`)).toBe('none');
  });
});
