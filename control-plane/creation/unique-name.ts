import { ApiError } from '../../shared/errors/api-error.ts';
import { keyLabel } from '../../shared/model/labels.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';
import { advisoryLockSeeds } from '../storage/locks.ts';
import { ownerName } from '../storage/stored-owner.ts';

/** A name by which people tell resources of a kind apart. Several may share one, unless a request says no. */
export interface UniqueName {
  readonly kind: 'gate' | 'issuer' | 'template' | 'wallet' | 'webhook';
  /** Of a webhook its URL; null has none, and never meets another. */
  readonly name: string | null;
  /** Its labels, or metadata: a name may come again with another `keyLabel`. */
  readonly labels?: Readonly<Record<string, unknown>>;
  /** Whether a live one of the owner has the name, and the key where there is one. */
  readonly isTaken: (tx: Transaction, owner: Owner, name: string, key: string | null) => Promise<boolean>;
}

/**
 * `If-None-Match: *`: throws `precondition_failed` where a resource of the kind has the name. Until the
 * transaction ends no other request with the header creates one of it, at any replica. Requests without the
 * header, and a rename, are not held off.
 */
export async function refuseTakenName(
  tx: Transaction,
  owner: Owner,
  { kind, name, labels = {}, isTaken }: UniqueName,
): Promise<void> {
  if (name === null) return;
  const text = `${kind} ${ownerName(owner)} ${name}`;
  await tx`SELECT pg_advisory_xact_lock(hashtextextended(${text}, ${advisoryLockSeeds.newNames}))`;
  // Its own statement, which sees what the holder before has committed.
  const { [keyLabel]: key } = labels;
  if (await isTaken(tx, owner, name, typeof key === 'string' ? key : null))
    throw new ApiError('precondition_failed', { message: `There is a ${kind} of this name already.` });
}

/** Of a condition: only those of the key; null: of any. */
export const ofKey = (tx: Transaction, labels: ReturnType<Transaction>, key: string | null) =>
  key === null ? tx`` : tx`AND ${labels}->>${keyLabel} = ${key}`;
