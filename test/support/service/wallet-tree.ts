import { expect } from 'vitest';
import type { Database } from '../../../control-plane/base/database.ts';
import { idDigest } from '../../../shared/crypto/id-digest.ts';
import { until, untilAnswer } from '../base/until.ts';
import { waitingForLocks } from '../database/postgres.ts';
import type { Api, Reply } from './api.ts';
import { type LeaseHolder, leaseHolder, ofPassport, wish } from './lease-holder.ts';
import { makeWallet } from './wallets.ts';

/** A tree of wallets, four deep, with one passport at its end. */
export interface WalletTree {
  readonly passport: Reply['body'];
  /** The lanes of the passport, from its wallet up to the root. */
  asks(units: number): ReturnType<typeof wish>[];
  /**
   * Locks the root's day in a session of its own, until the work is done. Resolves to the most sessions that
   * were seen to wait for a lock meanwhile.
   */
  whileHeld(work: (isWaitedFor: () => boolean) => Promise<void>): Promise<number>;
  /** Micro-USD that are given out, of each wallet. */
  leased(): Promise<readonly number[]>;
}

/** Each wallet has this limit. `other`: sessions of its own, of which one locks the root. */
export async function walletTree(api: Api, other: Database, dailyUsd: number): Promise<WalletTree> {
  const limit = { limits: { daily_usd: dailyUsd } };
  const path = [await makeWallet(api, limit)];
  for (let depth = 1; depth < 4; depth++)
    path.unshift(await makeWallet(api, { ...limit, parent_wallet_id: path[0].wallet_id }));
  const keys = path.map(({ wallet_id: id }) => idDigest(id));
  const passport = await api.issuePassport({ wallet_id: path[0].wallet_id });
  const lane = (key: string) => ({ ...ofPassport('wallet_spend', passport), wallet: `${key}:pot` });
  const asks: WalletTree['asks'] = (units) => keys.map((key) => wish(lane(key), 'day', units));
  // The rows of its windows.
  await (await leaseHolder(api)).lease(asks(0));
  const counterOf = (key: string | undefined) => `wallet_spend:${key}`;
  return {
    passport,
    asks,
    whileHeld: async (work) => {
      let mostWaiting = 0;
      await other.begin(async (tx) => {
        const locked = await tx`
          SELECT FROM quota_windows WHERE counter = ${counterOf(keys.at(-1))} FOR UPDATE`;
        expect(locked).toHaveLength(1);
        let isOver = false;
        const working = work(() => mostWaiting > 0).finally(() => {
          isOver = true;
        });
        // The looks keep this session from being taken for dead.
        const looks = async () => {
          const look = async () => {
            mostWaiting = Math.max(mostWaiting, await waitingForLocks(tx));
            return isOver;
          };
          await until(look, { what: 'the work is done' });
        };
        for (const each of await Promise.allSettled([working, looks()]))
          if (each.status === 'rejected') throw each.reason;
      });
      return mostWaiting;
    },
    leased: async () => {
      const rows = await api.deps.sql<{ counter: string; leased: number }[]>`
        SELECT counter, leased FROM quota_windows WHERE counter = ANY(${keys.map(counterOf)}::text[])`;
      const of = new Map(rows.map(({ counter, leased }) => [counter, leased]));
      return keys.map((key) => of.get(counterOf(key)) ?? Number.NaN);
    },
  };
}

/** 32 of each sidecar, as those of processes that came after each other. */
export async function holdersOf(api: Api, key: string, count: number): Promise<LeaseHolder[]> {
  const holders: LeaseHolder[] = [];
  while (holders.length < count) {
    const first = await leaseHolder(api, { key });
    const { sidecar } = first;
    const others = Array.from({ length: 31 }, () => leaseHolder(api, { sidecar }));
    holders.push(first, ...(await Promise.all(others)));
  }
  return holders.slice(0, count);
}

/** Makes a call again until it is not refused, as a sidecar does. */
export const untilServed = (call: () => Promise<Reply>): Promise<Reply> =>
  untilAnswer(call, ({ status }) => status !== 503, { what: 'the call is served' });
