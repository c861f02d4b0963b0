import { setTimeout as pause } from 'node:timers/promises';
import type { Chance } from '../support/base/chance.ts';
import { type ArrivedCall, type Deliver, httpLink, type LinkAnswer } from '../support/peers/http-link.ts';

/**
 * What stands between a sidecar and its control planes: a proxy that sends each call to one of them, and
 * while it is noisy loses calls before and answers after they were delivered, delivers calls twice, at once
 * or much later, and holds them up, also past the moment when the sidecar gives up.
 */
export interface NoisyLink {
  /** Of this end, to be called as the control plane. */
  readonly origin: string;
  isNoisy: boolean;
  /** What was done to calls so far. */
  readonly done: Readonly<Record<Noise, number>>;
  close(): Promise<void>;
}

type Noise = 'lost call' | 'lost answer' | 'twice at once' | 'twice, late' | 'held up';

/** Of a hundred calls. */
const percent: Readonly<Record<Noise, number>> = {
  'lost call': 2,
  'lost answer': 4,
  'twice at once': 4,
  'twice, late': 4,
  'held up': 6,
};
/** Past the second after which a sidecar gives up one attempt, and past the half minute of none. */
const holdUpMsMax = 1_200;
const lateMsMax = 3_000;

export async function noisyLink(origins: readonly string[], chance: Chance): Promise<NoisyLink> {
  const done = { 'lost call': 0, 'lost answer': 0, 'twice at once': 0, 'twice, late': 0, 'held up': 0 };
  const state = { isNoisy: false, isClosed: false };

  const pass = async (call: ArrivedCall, deliver: Deliver): Promise<LinkAnswer | null> => {
    const noise = state.isNoisy ? noiseFor(call, chance) : null;
    if (noise !== null) done[noise]++;
    switch (noise) {
      case null:
        return deliver(call);
      case 'lost call':
        return null;
      case 'lost answer':
        await deliver(call);
        return null;
      case 'twice at once':
        return (await Promise.all([deliver(call), deliver(call)]))[0];
      case 'twice, late': {
        const answer = await deliver(call);
        void pause(chance.below(lateMsMax), null, { ref: false }).then(() =>
          state.isClosed ? null : deliver(call),
        );
        return answer;
      }
      case 'held up':
        await pause(chance.below(holdUpMsMax));
        return deliver(call);
    }
  };

  const link = await httpLink(() => chance.pick(origins), pass);
  return {
    origin: link.origin,
    get isNoisy() {
      return state.isNoisy;
    },
    set isNoisy(isNoisy) {
      state.isNoisy = isNoisy;
    },
    done,
    close: async () => {
      state.isClosed = true;
      await link.close();
    },
  };
}

/** What all of them have done. */
export function doneBy(links: readonly NoisyLink[]): Readonly<Record<Noise, number>> {
  const sums = { 'lost call': 0, 'lost answer': 0, 'twice at once': 0, 'twice, late': 0, 'held up': 0 };
  for (const { done } of links)
    for (const noise of Object.keys(percent) as Noise[]) sums[noise] += done[noise];
  return sums;
}

/** Null: the call passes as it is. */
function noiseFor({ path, method, body }: ArrivedCall, chance: Chance): Noise | null {
  let left = chance.below(100);
  for (const noise of Object.keys(percent) as Noise[]) {
    left -= percent[noise];
    if (left >= 0) continue;
    // A second connection takes over from the first, by intention: delivered again it would shut the sidecar
    // out, as another process does. And a look-up that comes again may keep a PERMIT of which nobody was told
    // (docs/adr/0010-permits-nobody-was-told.md).
    const isOnce =
      path.startsWith('/v1/sync/connect') || method === 'GET' || body.includes('"kind":"look_up"');
    return isOnce && noise.startsWith('twice') ? 'held up' : noise;
  }
  return null;
}
