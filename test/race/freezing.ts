import { setTimeout as pause } from 'node:timers/promises';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Chance } from '../support/base/chance.ts';
import { call } from '../support/base/http-client.ts';
import { type Answers, slackMs } from './answers.ts';
import type { Course } from './course.ts';
import type { Records } from './records.ts';
import type { Servers } from './servers.ts';
import type { CourseWallet } from './wallet-course.ts';

/** A wallet was frozen from its answer until somebody asked to end it, by the clock that stamps records. */
export interface FrozenSpan {
  readonly wallet: CourseWallet;
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Beyond it a sidecar that has not heard of a freeze blocks everything at the gates of wallets, which are L3,
 * whatever is broken (contract §4). With as much for the clocks as they may differ.
 */
const boundMs = limits.stateAgeL3MsMax + 1_000;
const longMs = boundMs + 2_000;
const shortMsMax = 1_000;
const restMsMax = 1_500;
const againMs = 100;
/** It has its PERMITs by then, or the machine is so slow that nobody can tell. */
const demandMsMax = 60_000;

export interface Freezing {
  /** Ends with what was frozen, one span that was long among it; nothing is any more. */
  stop(): Promise<readonly FrozenSpan[]>;
}

/**
 * Somebody who freezes and unfreezes wallets of the course: first one that has plenty, long enough to see
 * that nothing passes, and then any, for a moment.
 */
export function startFreezing(options: {
  readonly course: () => Course;
  readonly servers: Servers;
  readonly answers: Answers;
  readonly chance: Chance;
}): Freezing {
  const { course, chance } = options;
  const spans: FrozenSpan[] = [];
  let isOver = false;
  const freezing = (async () => {
    const ample = must(
      course().wallets?.find(({ isAmple }) => isAmple),
      'a course has a wallet with plenty',
    );
    await hasPermits(ample, options.answers);
    spans.push(await freezeFor(ample, longMs, options, () => hasBlocks(options.answers)));
    while (!isOver) {
      await pause(chance.below(restMsMax));
      spans.push(await freezeFor(chance.pick(course().wallets ?? []), chance.below(shortMsMax), options));
    }
    return spans;
  })();
  return {
    stop: () => {
      isOver = true;
      return freezing;
    },
  };
}

async function hasPermits({ passportIds }: CourseWallet, { permits }: Answers): Promise<void> {
  const endsAtMs = performance.now() + demandMsMax;
  while (performance.now() < endsAtMs) {
    if ([...permits.values()].some(({ passportId }) => passportIds.has(passportId))) return;
    await pause(againMs);
  }
}

async function hasBlocks({ counts }: Answers): Promise<void> {
  const endsAtMs = performance.now() + demandMsMax;
  while (performance.now() < endsAtMs && !counts.has('BLOCK wallet_frozen')) await pause(againMs);
}

async function freezeFor(
  wallet: CourseWallet,
  forMs: number,
  { servers, chance }: { readonly servers: Servers; readonly chance: Chance },
  atLeastUntil = () => Promise.resolve(),
): Promise<FrozenSpan> {
  const say = async (verb: 'freeze' | 'unfreeze'): Promise<void> => {
    for (;;) {
      const origin = chance.pick(servers.controlPlanes);
      const url = `${origin}/v1/wallets/${wallet.walletId}/${verb}`;
      const reply = await call(url, { method: 'POST', key: servers.key, body: {} }).catch(() => null);
      if (reply?.status === 200) return;
      await pause(againMs);
    }
  };
  await say('freeze');
  const fromMs = Date.now();
  await Promise.all([pause(forMs), atLeastUntil()]);
  const untilMs = Date.now();
  await say('unfreeze');
  return { wallet, fromMs, untilMs };
}

/** Spans in which it would show that a freeze does not bind. */
export const tellingSpans = (spans: readonly FrozenSpan[]): readonly FrozenSpan[] =>
  spans.filter(({ fromMs, untilMs }) => untilMs - slackMs > fromMs + boundMs);

/** PERMITs at these gates that were decided while their wallet was frozen, and known to be so by all. */
export function permitsWhileFrozen(
  spans: readonly FrozenSpan[],
  { permits }: Pick<Records, 'permits'>,
  gateIds: readonly string[],
): readonly string[] {
  return tellingSpans(spans).flatMap(({ wallet: { name, passportIds }, fromMs, untilMs }) =>
    [...permits.values()]
      .filter(
        ({ gateId, passportId, timestampMs }) =>
          gateIds.includes(gateId) &&
          passportIds.has(passportId) &&
          timestampMs > fromMs + boundMs &&
          timestampMs < untilMs - slackMs,
      )
      .map(
        ({ attestationId, timestampMs }) =>
          `${attestationId} was permitted ${timestampMs - fromMs} ms after wallet ${name} was frozen`,
      ),
  );
}
