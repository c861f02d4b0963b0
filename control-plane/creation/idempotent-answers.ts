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
  /** Whose idempotency key it is. */
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
 * Claims the request's key until the transaction ends, and resolves to the answer that it already has, or
 * null. Waits for another transaction that holds the claim, at most `limits.idempotencyWaitMsMax`. Comes
 * first in its transaction, so that whoever waits holds nothing. Throws `idempotency_conflict` where the wait
 * was too short, and where the key was used for another request.
 *
 * The claim is a lock and no row. Rejected: to insert a row here and to fill in its answer at the end. It
 * needs two writes for each creation, and every reader must then tell a claim from an answer.
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

/** Stores the answer to a request whose key this transaction has claimed and found without one. */
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
 * All of it is sent at once and answered in one round trip. What is read is what was committed when the lock
 * was granted, because each statement looks for itself. The request's own expired answer goes by name, since
 * it must make room. That may wait for somebody who is removing it as one of the oldest; nobody waits in a
 * circle, because whoever removes others' answers has removed its own before and skips what is locked.
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

const tokenSeal = ({ sealer, random }: AnswerDeps, { callerId, idempotencyKey }: KeyedRequest) =>
  textSeal(sealer, `idempotent_answers/${callerId}/${idempotencyKey}`, () => random.bytes(nonceBytes));
