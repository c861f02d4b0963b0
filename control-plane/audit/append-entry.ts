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
 * Links, signs and writes one entry behind the last of the caller's chain. The last statement of its
 * transaction, sent with the COMMIT: until the commit nobody else adds to this chain.
 *
 * It is signed with the attestation key. Auditors have that key already, from the JWKS, and one command
 * verifies both chains; the message that is signed begins differently, so that neither passes for the other.
 * Rejected: a purpose of its own, one more key to rotate and to explain that protects nothing more, since the
 * same process holds both; and the `sync` key, which no outsider knows.
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
 * One round trip: the second statement looks when the lock is granted, and so sees the entry of whoever held
 * it before. The head row moves with each entry that is inserted, by a trigger: replicas of the version
 * before move it too, and know nothing of it.
 */
async function lockHead(tx: Transaction, { accountId, mode }: Owner): Promise<AuditHead> {
  const [, [last]] = await Promise.all([
    tx`SELECT pg_advisory_xact_lock(hashtextextended(${`${accountId} ${mode}`}, ${advisoryLockSeeds.auditChains}))`,
    tx<AuditHead[]>`
      SELECT sequence, hash FROM audit_chains WHERE account_id = ${accountId} AND mode = ${mode}`,
  ]);
  return last ?? emptyAuditChain;
}
