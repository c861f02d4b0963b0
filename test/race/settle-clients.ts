import { setTimeout as pause } from 'node:timers/promises';
import { must } from '../../shared/errors/assert.ts';
import type { Chance } from '../support/base/chance.ts';
import type { Answers, Asked } from './answers.ts';
import type { Servers } from './servers.ts';

/** Null: no whole answer. */
export type Post = (
  origin: string,
  path: string,
  body: object,
) => Promise<{ readonly status: number } | null>;

export interface Settling {
  readonly answers: Answers;
  readonly servers: Servers;
  readonly chance: Chance;
  readonly post: Post;
}

interface Outcome {
  readonly outcome: 'served' | 'failed';
  readonly amount?: number;
}

/** How often a client repeats a report that nobody has taken. Then it crashes for good. */
const attemptsMax = 8;

/**
 * What a client does with a PERMIT that holds its money. Most report what it came to, some to several servers
 * at once, and again until one has taken it; some say two things at once; some ask for a refund or for more
 * time; and some are never heard of again, so that the hold has to end by itself.
 */
export async function settlePermit(by: Settling, asked: Asked, attestationId: string): Promise<void> {
  const { chance } = by;
  const choice = chance.below(100);
  if (choice < 15) return;
  if (choice < 20) await changeAtControlPlane(by, attestationId, 'hold/extend', { expires_in_s: 60 });
  if (choice < 35) return report(by, attestationId, { outcome: 'failed' }, 1);
  const held = must(asked.amountUsd, 'a request that holds money has an amount');
  const spent = spentOf(chance, held, asked.lane.holds?.overrun === 'charge');
  if (choice < 45) {
    // They contradict each other: one of them stands.
    await Promise.all([
      report(by, attestationId, spent, 1),
      report(by, attestationId, { outcome: 'failed' }, 1),
    ]);
    return;
  }
  await report(by, attestationId, spent, 1 + chance.below(3));
  if (choice >= 85) await changeAtControlPlane(by, attestationId, 'refund', { amount: part(held, 3) });
}

const part = (usd: number, of: number): number => Math.max(1, Math.floor((usd * 1e6) / of)) / 1e6;

function spentOf(chance: Chance, held: number, mayCostMore: boolean): Outcome {
  if (chance.happens(0.2)) return { outcome: 'served' };
  if (chance.happens(mayCostMore ? 0.15 : 0.05)) return { outcome: 'served', amount: part(held * 1.4, 1) };
  return { outcome: 'served', amount: part(held, 1 + chance.below(4)) };
}

async function report(by: Settling, id: string, outcome: Outcome, copies: number): Promise<void> {
  const told = by.answers.outcomesOf(id);
  const text = JSON.stringify(outcome);
  told.sent.add(text);
  for (let attempt = 0; attempt < attemptsMax && !told.taken.has(text); attempt++) {
    if (attempt > 0) await pause(20 + by.chance.below(200));
    await Promise.all(
      Array.from({ length: copies }, async () => {
        const answer = await by.post(serverOf(by), `/v1/attestations/${id}/outcome`, outcome);
        by.answers.count(`outcome ${answer?.status ?? 'without answer'}`);
        if (answer?.status === 200 || answer?.status === 202) told.taken.add(text);
      }),
    );
  }
}

/** Once the record of the PERMIT has arrived there. One without an answer may have happened. */
async function changeAtControlPlane(by: Settling, id: string, path: string, body: object): Promise<void> {
  const { controlPlanes } = by.servers;
  if (controlPlanes.length === 0) return;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    if (attempt > 0) await pause(100 + by.chance.below(200));
    const answer = await by.post(by.chance.pick(controlPlanes), `/v1/attestations/${id}/${path}`, body);
    by.answers.count(`${path} ${answer?.status ?? 'without answer'}`);
    if (answer?.status !== 404) return;
  }
}

function serverOf({ servers: { sidecars, controlPlanes }, chance }: Settling): string {
  return controlPlanes.length > 0 && chance.happens(0.3) ? chance.pick(controlPlanes) : chance.pick(sidecars);
}
