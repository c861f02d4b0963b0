/**
 * Room `control-plane/events`: live changes for browsers: what a transaction changes is noted here,
 * `publish-hints.ts` publishes it after the commit, over the bus; `event-streams.ts` holds the open
 * server-sent events, `watch.ts` is one of them with its caller.
 */

import type { AccountId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import type { Database, Transaction } from '../base/database.ts';

/** What a hint can be about, with the scope that reads it. */
export const hintScopes = {
  approval: 'approvals:read',
  gate: 'gates:read',
  passport: 'passports:read',
  revocation: 'passports:read',
  record: 'attestations:read',
  delivery: 'webhooks:manage',
  sidecar: 'gates:read',
} as const satisfies Readonly<Record<string, Scope>>;
export type HintType = keyof typeof hintScopes;

/**
 * Something has changed: look again. Like every message of the bus a hint may be lost, so nobody may be wrong
 * without it. `access`: who may call has changed; for the streams themselves, never sent to a caller.
 */
export interface Hint {
  readonly accountId: AccountId;
  /** Null: both. */
  readonly mode: Mode | null;
  readonly type: HintType | 'access';
  /** Null: several, or nothing in particular. */
  readonly id: string | null;
}

type Publish = (hints: readonly Hint[]) => void;

const noted = new WeakMap<object, Hint[]>();
const publishers = new WeakMap<object, Publish>();

/**
 * Notes hints of what this transaction changes: they are published when it is committed, and never where it
 * is not. Given the pool itself, they are published at once.
 */
export function noteHints(at: Database | Transaction, hints: readonly Hint[]): void {
  const waiting = noted.get(at);
  if (waiting === undefined) publishers.get(at)?.(hints);
  else for (const hint of hints) waiting.push(hint);
}

/** Lets every transaction of the pool publish what was noted in it. Where the commit fails, nothing is. */
export function publishHintsOf(sql: Database, publish: Publish): void {
  const begin = sql.begin.bind(sql) as (...given: unknown[]) => Promise<unknown>;
  publishers.set(sql, publish);
  const beginAndPublish = async (...given: unknown[]): Promise<unknown> => {
    const hints: Hint[] = [];
    const work = given.at(-1) as (tx: Transaction) => unknown;
    const result = await begin(...given.slice(0, -1), (tx: Transaction) => {
      noted.set(tx, hints);
      return work(tx);
    });
    if (hints.length > 0) publish(hints);
    return result;
  };
  Object.assign(sql, { begin: beginAndPublish });
}
