/**
 * Room `control-plane/events`: live changes for browsers. Transactions note their hints here,
 * `publish-hints.ts` publishes them over the bus after the commit; `event-streams.ts` has the open
 * server-sent events, `watch.ts` one of them with its caller.
 */

import type { AccountId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import type { Database, Transaction } from '../base/database.ts';
import { collectDue, dueWorkOf, type Work } from '../storage/due-work.ts';

/** The types of hints, with the scope that reads each. */
export const hintScopes = {
  approval: 'approvals:read',
  gate: 'gates:read',
  passport: 'passports:read',
  revocation: 'passports:read',
  record: 'attestations:read',
  delivery: 'webhooks:manage',
  mcp_pin: 'gates:read',
  sidecar: 'gates:read',
} as const satisfies Readonly<Record<string, Scope>>;
export type HintType = keyof typeof hintScopes;

/**
 * Something has changed: read again. Like every message of the bus a hint may be lost, so correctness must
 * not depend on it. `access`: a caller's access may have changed; for the streams themselves, never sent to a
 * caller.
 */
export interface Hint {
  readonly accountId: AccountId;
  /** Null: both. */
  readonly mode: Mode | null;
  readonly type: HintType | 'access';
  /** Null: several, or none in particular. */
  readonly id: string | null;
}

type Publish = (hints: readonly Hint[]) => void;

const noted = new WeakMap<object, Hint[]>();
const publishers = new WeakMap<object, Publish>();

/**
 * Notes hints of this transaction's changes, published at its commit and dropped otherwise. With the pool
 * itself, they are published at once.
 */
export function noteHints(at: Database | Transaction, hints: readonly Hint[]): void {
  const waiting = noted.get(at);
  if (waiting === undefined) publishers.get(at)?.(hints);
  else for (const hint of hints) waiting.push(hint);
}

/**
 * Publishes the noted hints of every transaction of the pool after its commit, and wakes the loops of what it
 * has queued; nothing of that if the commit fails.
 */
export function publishHintsOf(sql: Database, publish: Publish): void {
  const begin = sql.begin.bind(sql) as (...given: unknown[]) => Promise<unknown>;
  publishers.set(sql, publish);
  const beginAndPublish = async (...given: unknown[]): Promise<unknown> => {
    const hints: Hint[] = [];
    const works = new Set<Work>();
    const work = given.at(-1) as (tx: Transaction) => unknown;
    const result = await begin(...given.slice(0, -1), (tx: Transaction) => {
      noted.set(tx, hints);
      collectDue(tx, works);
      return work(tx);
    });
    if (hints.length > 0) publish(hints);
    for (const each of works) dueWorkOf(sql).wake(each);
    return result;
  };
  Object.assign(sql, { begin: beginAndPublish });
}
