import { expect, it } from 'vitest';
import type { MonotonicMillis } from '../../../shared/model/time.ts';
import { learnOfLeases, Waiting } from '../../../sidecar/enforce/waiting.ts';

it('asks again what is known of a key when its units are gone: another copy may have taken them since', () => {
  const waiting = new Waiting(250 as MonotonicMillis);
  waiting.isLookedUp = true;
  learnOfLeases(waiting, { kind: 'granted' });
  expect(waiting.isLookedUp).toBe(true);
  learnOfLeases(waiting, { kind: 'refused', refusal: new Map() });
  expect(waiting.isLookedUp).toBe(false);
});
