import fc, { type Arbitrary } from 'fast-check';
import { expect, it } from 'vitest';
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { KnownRoutes } from '../../sidecar/http/known-routes.ts';
import { httpLimits } from '../../sidecar/http/limits.ts';
import { type Route, routeOf } from '../../sidecar/http/routes.ts';
import { runs } from '../support/runs.ts';

const random = systemRandom();
const gateId = (n: number) => random.newId('gate', n as UnixMillis);
const gateIds = [gateId(1), gateId(2)] as const;

const ids = fc.constantFrom(...gateIds, gateIds[0].replace('_', '%5F'), 'gate_x', '', '%', 'a/b', 'é', '%00');
const paths: Arbitrary<string> = fc.oneof(
  { weight: 5, arbitrary: ids.map((id) => `/v1/gates/${id}/check`) },
  { weight: 1, arbitrary: ids.map((id) => `/v1/gates/${id}/check/batch`) },
  { weight: 1, arbitrary: ids.map((id) => `/${id}/orders`) },
  { weight: 1, arbitrary: fc.constantFrom('/v1/enforce', '/livez', '/v1/stream', '/', '') },
);
const heads = fc.record({
  method: fc.oneof({ weight: 4, arbitrary: fc.constant('POST') }, fc.constantFrom('GET', 'PUT', 'post')),
  path: paths,
});

const outcomeOf = (read: () => Route): Route | string => {
  try {
    return read();
  } catch (error) {
    return String(error);
  }
};

it('an address that came before is read as it was read then', () => {
  let known = 0;
  fc.assert(
    fc.property(fc.array(heads, { maxLength: 20 }), (arriving) => {
      const routes = new KnownRoutes();
      for (const head of arriving) {
        expect(outcomeOf(() => routes.of(head))).toEqual(outcomeOf(() => routeOf(head)));
      }
      known += routes.size;
    }),
    { numRuns: runs({ short: 300, long: 10_000 }) },
  );
  expect(known).toBeGreaterThan(100);
});

it('addresses that are none of a gate take nobody else out', () => {
  const routes = new KnownRoutes();
  const ask = (id: string) => routes.of({ method: 'POST', path: `/v1/gates/${id}/check` });
  const { knownRoutesMax, missedRoutesMax } = httpLimits;
  const first = gateId(0);
  ask(first);
  const known = ask(first);
  for (let n = 1; n < knownRoutesMax; n++) ask(gateId(n));
  for (let n = 0; n < 2 * missedRoutesMax; n++) ask(`gate-${n}`);
  expect(routes.size).toBe(knownRoutesMax);
  expect(ask(first)).toBe(known);
});

it('only addresses of gates are remembered, and at most so many', () => {
  const routes = new KnownRoutes();
  const ask = (id: string, below = '') =>
    routes.of({ method: 'POST', path: `/v1/gates/${id}/check${below}` });
  for (let n = 0; n < 100; n++) ask(`gate-${n}`);
  expect(routes.size).toBe(0);
  const { knownRoutesMax, missedRoutesMax } = httpLimits;
  const first = gateId(0);
  ask(first);
  const known = ask(first);
  for (let n = 2; n < knownRoutesMax + missedRoutesMax; n++) ask(gateId(n));
  // Full: those that are there stay.
  expect(routes.size).toBe(knownRoutesMax);
  expect(ask(first)).toBe(known);
  // Until many more have come: then it is the turn of others.
  ask(gateId(1));
  ask(gateId(1));
  expect(routes.size).toBe(2);
  expect(ask(gateIds[0])).toEqual({ kind: 'check', gateId: gateIds[0] });
  expect(ask(gateIds[0])).toBe(ask(gateIds[0]));
  expect(routes.size).toBe(3);
  expect(ask(gateIds[0], '/batch')).toEqual({ kind: 'check_batch', gateId: gateIds[0] });
  expect(ask(gateIds[0], '/batch')).toBe(ask(gateIds[0], '/batch'));
});
