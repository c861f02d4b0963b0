import { describe, expect, it } from 'vitest';
import { samplerOf, samples } from '../../../shared/telemetry/sampler.ts';
import { type EndedSpan, Tracer } from '../../../shared/telemetry/tracer.ts';
import { parseTraceparent } from '../../../shared/wire/api/trace-context.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentOf = (flags: '00' | '01') => parseTraceparent(`00-${traceId}-00f067aa0ba902b7-${flags}`);
const end = { attributes: {}, isError: false };

function tracerWith(name: string, ratio = 1) {
  const ended: EndedSpan[] = [];
  let next = 0;
  const sampler = samplerOf(name, ratio);
  if (sampler === null) throw new Error('no such sampler');
  const tracer = new Tracer({
    sampler,
    take: (span) => void ended.push(span),
    bytes: (count) => Uint8Array.from({ length: count }, () => next++ % 251),
  });
  return { tracer, ended };
}

describe('samplers', () => {
  it.each([
    ['always_on', [true, true, true]],
    ['always_off', [false, false, false]],
    ['parentbased_always_on', [true, false, true]],
    ['parentbased_always_off', [false, false, true]],
    ['parentbased_traceidratio', [false, false, true]],
  ] as const)(
    '%s: without a parent, with one that is not sampled, and with one that is',
    (name, expected) => {
      const sampler = samplerOf(name, 0);
      const asked = [null, parentOf('00'), parentOf('01')];
      expect(asked.map((parent) => sampler !== null && samples(sampler, { traceId, parent }))).toEqual(
        expected,
      );
    },
  );

  it('choose by the random part of the id, so that a larger ratio takes all that a smaller one does', () => {
    const ids = Array.from({ length: 1_000 }, (_, n) => {
      const random = Math.floor((n / 1_000) * 2 ** 52) * 16;
      return `${'0'.repeat(17)}1${random.toString(16).padStart(14, '0')}`;
    });
    const taken = (ratio: number) =>
      ids.filter((id) => samples({ isByParent: false, ratio }, { traceId: id, parent: null }));
    expect([0, 0.01, 0.5, 1].map((ratio) => taken(ratio).length)).toEqual([0, 10, 500, 1_000]);
    expect(taken(0.5)).toEqual(expect.arrayContaining(taken(0.01)));
  });
});

describe('spans', () => {
  it('begin a trace, or go on with that of their parent, and are the parent of what they cause', () => {
    const { tracer, ended } = tracerWith('parentbased_always_on');
    const first = tracer.start('first', { kind: 'server', parent: null });
    const second = tracer.start('second', { kind: 'client', parent: first?.trace ?? null });
    second?.end({ name: 'renamed', attributes: { a: 1 }, isError: true });
    first?.end(end);
    first?.end(end);
    const [child, root] = ended;
    expect(ended).toHaveLength(2);
    expect(child).toMatchObject({
      name: 'renamed',
      parentId: root?.spanId,
      traceId: root?.traceId,
      isError: true,
    });
    expect(root).toMatchObject({ name: 'first', kind: 'server', parentId: null, isError: false });
    expect(parseTraceparent(first?.trace.traceparent)).toEqual(first?.trace);
    expect(root?.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(new Set([root?.spanId, child?.spanId]).size).toBe(2);
  });

  it('end when they end, and have begun as long ago as they are told', () => {
    const { tracer, ended } = tracerWith('always_on');
    const beforeMs = Date.now();
    tracer.start('a', { kind: 'server', parent: null, agoMs: 1_000 })?.end(end);
    const span = ended[0];
    const tookMs = (span?.endMs ?? 0) - (span?.startMs ?? 0);
    expect(tookMs).toBeGreaterThanOrEqual(1_000);
    expect(Math.abs((span?.startMs ?? 0) - (beforeMs - 1_000))).toBeLessThan(1_000);
  });

  it('that link to others are sampled where one of those is', () => {
    const sampled = parentOf('01');
    const links = sampled === null ? [] : [sampled];
    const isSampled = (name: string, ratio: number, given: typeof links) =>
      tracerWith(name, ratio).tracer.start('a', { kind: 'client', parent: null, links: given }) !== null;
    expect(isSampled('parentbased_traceidratio', 0, [])).toBe(false);
    expect(isSampled('parentbased_traceidratio', 0, links)).toBe(true);
    expect(isSampled('traceidratio', 0, links)).toBe(false);
    expect(isSampled('always_off', 1, links)).toBe(false);
    expect(isSampled('always_on', 1, links)).toBe(true);
  });

  it('have no id of zeros', () => {
    const ended: EndedSpan[] = [];
    let round = 0;
    const bytes = (count: number) => new Uint8Array(count).fill(round++ === 0 ? 0 : 7);
    const sampler = { isByParent: false, ratio: 1 };
    const tracer = new Tracer({ sampler, take: (span) => void ended.push(span), bytes });
    tracer.start('a', { kind: 'server', parent: null })?.end(end);
    expect(ended[0]).toMatchObject({ traceId: '07'.repeat(16), spanId: '07'.repeat(8) });
  });
});
