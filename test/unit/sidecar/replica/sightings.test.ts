import { expect, it } from 'vitest';
import type { VerifiedPassport } from '../../../../shared/decision/facts.ts';
import type { MonotonicMillis } from '../../../../shared/model/time.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import type { ShownTokens } from '../../../../shared/wire/sync/shown-tokens.ts';
import { ControlPlaneError } from '../../../../sidecar/replica/control-plane-error.ts';
import { Sightings } from '../../../../sidecar/replica/sightings.ts';

/** A passport of another issuer, as far as it is told. */
const passportOf = (change: object = {}) =>
  ({
    passportId: 'pass_01m7w8f9fn41y1y6091p33efsg',
    mode: 'live',
    permissions: ['orders:create'],
    trustTier: 'L1',
    owner: 'ann',
    source: { version: 1, maxKeyAgeMs: 1, keysAtMs: null, isCurrent: true },
    ...change,
  }) as unknown as VerifiedPassport;

/** What is shown, and what the control plane says to it. */
function sightingsWith(answer: (tokens: ShownTokens['tokens']) => number) {
  const shown: string[] = [];
  const sightings = new Sightings({
    show: async ({ tokens }) => {
      shown.push(...tokens.map(({ token }) => token));
      return answer(tokens);
    },
    clock: { monotonic: () => 0 as MonotonicMillis },
    logger: silentLogger,
  });
  /** Notes the token, and returns what was shown for it. */
  const meet = async (token: string, change: object = {}) => {
    sightings.note(token, passportOf(change));
    await sightings.flush();
    return shown.splice(0);
  };
  return meet;
}

it('shows a passport again as soon as anything changes that its row holds, and not otherwise', async () => {
  const meet = sightingsWith((tokens) => tokens.length);
  expect(await meet('first')).toEqual(['first']);
  expect(await meet('the same terms')).toEqual([]);
  const source = { version: 2, maxKeyAgeMs: 1, keysAtMs: null, isCurrent: true };
  expect(await meet('other settings', { source })).toEqual(['other settings']);
  expect(await meet('as before')).toEqual(['as before']);
  // The same characters in another place.
  expect(await meet('owner', { owner: 'ann orders:create', permissions: [] })).toEqual(['owner']);
  expect(await meet('back')).toEqual(['back']);
});

it('shows a passport again that the control plane did not see, and waits for nothing', async () => {
  let isSeen = false;
  const meet = sightingsWith((tokens) => (isSeen ? tokens.length : 0));
  expect(await meet('not verified there')).toEqual(['not verified there']);
  isSeen = true;
  expect(await meet('later')).toEqual(['later']);
  expect(await meet('known')).toEqual([]);

  const refusing = sightingsWith(() => {
    throw new ControlPlaneError('tokens', 404, null);
  });
  expect(await refusing('refused')).toEqual(['refused']);
  expect(await refusing('refused again')).toEqual(['refused again']);
});
