import { describe, expect, it } from 'vitest';
import {
  parseTraceparent,
  parseTracestate,
  renderTraceHeaders,
} from '../../../shared/wire/api/trace-context.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const valid = `00-${traceId}-${parentId}-01`;

describe('traceparent', () => {
  it.each([
    valid,
    `00-${traceId}-${parentId}-00`,
    `cc-${traceId}-${parentId}-01`,
    `cc-${traceId}-${parentId}-01-more`,
  ])('is taken: %s', (header) => {
    const isSampled = !header.endsWith('-00');
    expect(parseTraceparent(header)).toEqual({
      traceId,
      parentId,
      isSampled,
      traceparent: header,
      tracestate: '',
    });
  });

  it.each([
    ['version ff', `ff-${traceId}-${parentId}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${parentId}-01`],
    ['a parent of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['upper case', valid.toUpperCase()],
    ['more than version 00 has', `${valid}-more`],
    ['white space', ` ${valid}`],
    ['two of them', `${valid}, ${valid}`],
    ['too much', `cc-${traceId}-${parentId}-01-${'m'.repeat(100)}`],
  ])('is ignored: %s', (_what, header) => {
    expect(parseTraceparent(header)).toBeNull();
  });

  it('is ignored where there is none, or a list', () => {
    expect(parseTraceparent(undefined)).toBeNull();
    expect(parseTraceparent([valid])).toBeNull();
  });
});

describe('tracestate', () => {
  const members = (count: number) => Array.from({ length: count }, (_, n) => `k${n}=v`);

  it.each([
    ['one member', 'rojo=00f067aa0ba902b7'],
    ['a key of a tenant', '0tenant@vendor=a b'],
    ['as many members as there may be', members(32).join(',')],
    ['as much as there may be', `a=${'x'.repeat(256)},b=${'y'.repeat(251)}`],
  ])('is passed on: %s', (_what, header) => {
    expect(parseTracestate(header)).toBe(header);
    expect(parseTraceparent(valid, header)?.tracestate).toBe(header);
  });

  it('is passed on without white space around members, and without empty ones', () => {
    expect(parseTracestate(' a=1 ,\t,b= 2,')).toBe('a=1,b= 2');
    expect(parseTracestate(['a=1', 'b=2'])).toBe('a=1,b=2');
  });

  it.each([
    ['a member too many', members(33).join(',')],
    ['a byte too many', `a=${'x'.repeat(256)},b=${'y'.repeat(252)}`],
    ['a key twice', 'a=1,b=2,a=3'],
    ['upper case in a key', 'A=1'],
    ['an equals sign in a value', 'a=b=c'],
    ['a value of 257', `a=${'x'.repeat(257)}`],
    ['a line break', 'a=1\r\nx: y'],
    ['nothing', ''],
    ['no header', undefined],
  ])('is left out, and the trace goes on: %s', (_what, header) => {
    expect(parseTracestate(header)).toBe('');
    const trace = parseTraceparent(valid, header);
    expect(trace && renderTraceHeaders(trace)).toEqual({ traceparent: valid });
  });
});
