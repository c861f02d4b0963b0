import { describe, expect, it } from 'vitest';
import { parseTraceparent, traceFields } from '../../../shared/wire/trace-context.ts';

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
    expect(parseTraceparent(header)).toEqual({ traceId, parentId, isSampled, traceparent: header });
  });

  it.each([
    ['nothing', ''],
    ['version ff', `ff-${traceId}-${parentId}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${parentId}-01`],
    ['a parent of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['upper case', valid.toUpperCase()],
    ['more than version 00 has', `${valid}-more`],
    ['a hyphen more', `${valid}-`],
    ['less', valid.slice(0, -1)],
    ['no hyphen before more', `cc-${traceId}-${parentId}-01more`],
    ['white space', ` ${valid}`],
    ['a line break', `${valid}\n`],
    ['two of them', `${valid}, ${valid}`],
    ['too much', `cc-${traceId}-${parentId}-01-${'m'.repeat(100)}`],
  ])('is ignored: %s', (_what, header) => {
    expect(parseTraceparent(header)).toBeNull();
  });

  it('is ignored where there is none, or a list', () => {
    expect(parseTraceparent(undefined)).toBeNull();
    expect(parseTraceparent([valid])).toBeNull();
  });

  it('is named in log lines where it is valid', () => {
    expect(traceFields(valid)).toEqual({ trace_id: traceId });
    for (const header of ['', valid.toUpperCase(), `${valid}, ${valid}`])
      expect(traceFields(header)).toEqual({});
  });
});
