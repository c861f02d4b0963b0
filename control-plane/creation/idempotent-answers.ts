import { nonceBytes } from '../../shared/crypto/seal.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import {
  type AnswerBody,
  parseAnswerBody,
  textSeal,
  withoutSecrets,
  withToken,
} from '../http/answer-secrets.ts';
import { isLockTimeout } from '../storage/database-away.ts';
import { advisoryLockSeeds } from '../storage/locks.ts';
import { creationLimits } from './limits.ts';

/** A request that carries an `Idempotency-Key`. */
export interface KeyedRequest {
  /** Owner of the idempotency key. */
  readonly callerId: string;
  readonly idempotencyKey: string;
  /** `sha256:…` of method, path and body. */
  readonly fingerprint: string;
}

export interface Answer {
  readonly status: number;
  readonly body: AnswerBody;
}

type AnswerDeps = Pick<BaseDeps, 'clock' | 'random' | 'sealer'>;

/**
 * Claims the request's key until the transaction ends, and resolves to its stored answer, or null. Waits at
 * most `limits.idempotencyWaitMsMax` for another transaction with the claim. Comes first in its transaction,
 * so that waiters hold no locks. Throws `idempotency_conflict` when the wait times out, and for a key of
 * another request.
 *
 * The claim is a lock, not a row. Rejected: inserting a row and adding the answer at the end, which needs two
 * writes per creation, and readers that tell a claim from an answer.
 */
export async function claimKey(
  tx: Transaction,
  deps: AnswerDeps,
  request: KeyedRequest,
): Promise<Answer | null> {
  const row = await lockAndRead(tx, request, deps.clock.now() - creationLimits.idempotentAnswerKeptMs);
  if (row === null) return null;
  if (row.fingerprint !== request.fingerprint) throw new ApiError('idempotency_conflict');
  const { open } = tokenSeal(deps, request);
  return { status: row.status, body: withToken(parseAnswerBody(row.body), open) };
}

/** Stores the answer of a request whose key this transaction claimed. */
export async function storeAnswer(
  tx: Transaction,
  deps: AnswerDeps,
  { request, answer }: { readonly request: KeyedRequest; readonly answer: Answer },
): Promise<void> {
  const body = withoutSecrets(answer.body, tokenSeal(deps, request).seal);
  await tx`
    INSERT INTO idempotent_answers (key_id, idempotency_key, fingerprint, status, body, created_at_ms)
    VALUES (${request.callerId}, ${request.idempotencyKey}, ${request.fingerprint}, ${answer.status},
      ${JSON.stringify(body)}, ${deps.clock.now()})`;
}

interface AnswerRow {
  readonly fingerprint: string;
  readonly status: number;
  readonly body: string;
}

/**
 * One round trip. The read sees everything committed when the lock was granted, because each statement has
 * its own snapshot. The request's own expired answer is deleted by name, to make room. That may wait for a
 * transaction that trims it as one of the oldest; there is no deadlock, because trimming comes after one's
 * own deletion and skips locked rows.
 */
async function lockAndRead(
  tx: Transaction,
  { callerId, idempotencyKey }: KeyedRequest,
  expiredSinceMs: number,
): Promise<AnswerRow | null> {
  try {
    const [, , , , , rows] = await Promise.all([
      tx`SELECT set_config('lock_timeout', ${String(limits.idempotencyWaitMsMax)}, true)`,
      tx`SELECT pg_advisory_xact_lock(hashtextextended(${`${callerId} ${idempotencyKey}`}, ${advisoryLockSeeds.idempotencyKeys}))`,
      tx`
        DELETE FROM idempotent_answers
        WHERE key_id = ${callerId} AND idempotency_key = ${idempotencyKey} AND created_at_ms <= ${expiredSinceMs}`,
      tx`
        DELETE FROM idempotent_answers WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM idempotent_answers WHERE created_at_ms <= ${expiredSinceMs}
          ORDER BY created_at_ms LIMIT ${creationLimits.idempotentAnswersPerTrimMax} FOR UPDATE SKIP LOCKED))`,
      tx`SET LOCAL lock_timeout TO DEFAULT`,
      tx<AnswerRow[]>`
        SELECT fingerprint, status, body FROM idempotent_answers
        WHERE key_id = ${callerId} AND idempotency_key = ${idempotencyKey}`,
    ]);
    return rows[0] ?? null;
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    throw new ApiError('idempotency_conflict', {
      message: 'The first request with this idempotency key is still in progress. Try again shortly.',
      cause: error,
    });
  }
}

export const answerSealContext = ({
  callerId,
  idempotencyKey,
}: Pick<KeyedRequest, 'callerId' | 'idempotencyKey'>): string =>
  `idempotent_answers/${callerId}/${idempotencyKey}`;

const tokenSeal = ({ sealer, random }: AnswerDeps, request: KeyedRequest) =>
  textSeal(sealer, answerSealContext(request), () => random.bytes(nonceBytes));
