import { type AuditHead, emptyAuditChain, linkAuditEntry } from '../../shared/audit/entry.ts';
import type { AuditFacts } from '../../shared/model/audit.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';
import { noteHints } from '../events/note-hints.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { advisoryLockSeeds } from '../storage/locks.ts';
import { sendWithCommit } from '../storage/together.ts';
import { insertAuditEntry } from './audit-store.ts';
import { hintsOfChange } from './hints-of-change.ts';

/**
 * Links, signs and appends one entry to the caller's chain. The last statement of its transaction, sent with
 * the COMMIT: until then no other transaction appends to this chain.
 *
 * Signed with the attestation key, which auditors have from the JWKS, so one command verifies both chains.
 * The signed messages have different prefixes, so neither passes for the other. Rejected: a purpose of its
 * own, which adds a key to rotate and no protection, because the same process holds both; and the `sync` key,
 * which outsiders do not know.
 */
export async function appendAuditEntry(
  tx: Transaction,
  deps: Pick<SigningDeps, 'clock' | 'random' | 'signingKeys'>,
  { accountId, mode, actor, requestId }: Pick<Caller, 'accountId' | 'mode' | 'actor' | 'requestId'>,
  change: Pick<AuditFacts, 'operation' | 'target' | 'before' | 'after'>,
): Promise<void> {
  const head = await lockHead(tx, { accountId, mode });
  const nowMs = deps.clock.now();
  const facts: AuditFacts = {
    ...change,
    auditId: deps.random.newId('aud', nowMs),
    accountId,
    mode,
    actor,
    requestId,
    createdAtMs: nowMs,
  };
  const entry = linkAuditEntry(facts, head, deps.signingKeys.current('attestation'));
  await sendWithCommit(() => insertAuditEntry(tx, entry));
  noteHints(tx, hintsOfChange(facts));
}

/**
 * One round trip: the second statement reads once the lock is granted, so it sees the entry of the lock's
 * last holder. A trigger moves the head row with each inserted entry, so replicas of the version before move
 * it too.
 */
async function lockHead(tx: Transaction, { accountId, mode }: Owner): Promise<AuditHead> {
  const [, [last]] = await Promise.all([
    tx`SELECT pg_advisory_xact_lock(hashtextextended(${`${accountId} ${mode}`}, ${advisoryLockSeeds.auditChains}))`,
    tx<AuditHead[]>`
      SELECT sequence, hash FROM audit_chains WHERE account_id = ${accountId} AND mode = ${mode}`,
  ]);
  return last ?? emptyAuditChain;
}
