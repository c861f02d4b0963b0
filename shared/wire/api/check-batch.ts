import { Type } from 'typebox';
import { isLossless, jsonLosses } from '../../crypto/json-losses.ts';
import { isJsonObject } from '../../crypto/json-object.ts';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import { limits } from '../../model/limits.ts';
import { CheckBody } from './check.ts';
import { DecisionAnswer } from './decision.ts';
import { ErrorAnswer } from './error.ts';
import { closed } from './fields.ts';
import { assertSafeJson, lossRefusal } from './json.ts';

/** `POST /gates/:id/check/batch` (contract §16), for the published document. */
export const CheckBatchBody = closed({
  checks: Type.Array(CheckBody, { minItems: 1, maxItems: limits.batchChecksMax }),
});

/** In the order of the checks: a decision, or why there is none. */
export const CheckBatchAnswer = Type.Object({
  results: Type.Array(Type.Union([DecisionAnswer, ErrorAnswer])),
});

/**
 * The unread checks of a batch; a malformed one gets an error as its own result. Throws `invalid_request` for
 * anything but 1 to `limits.batchChecksMax` checks.
 */
export function parseCheckBatch(body: unknown): readonly unknown[] {
  if (!isJsonObject(body)) throw invalidRequest('body', 'The body must be an object.');
  const { checks, ...others } = body;
  const [other] = Object.keys(others);
  if (other !== undefined) throw invalidRequest('body', 'The body has a member besides checks.');
  if (!Array.isArray(checks) || checks.length < 1 || checks.length > limits.batchChecksMax) {
    throw invalidRequest('checks', `checks must be a list of 1 to ${limits.batchChecksMax} checks.`);
  }
  return checks;
}

/**
 * The errors of those members of a body's `list` that JSON.parse could not read without loss
 * (`assertLossless`), by index. Throws `invalid_request` for a loss outside of the list, and for two lists.
 */
export function lossesByIndex(
  { text, value }: { readonly text: string; readonly value: unknown },
  list: string,
): ReadonlyMap<number, ApiError> {
  if (isLossless(text, value)) return noLosses;
  const losses = new Map<number, ApiError>();
  for (const loss of jsonLosses(text)) {
    const [name, index] = loss.path;
    if (name !== list || typeof index !== 'number') throw lossRefusal(loss);
    if (!losses.has(index)) losses.set(index, lossRefusal(loss, 2));
  }
  return losses;
}

const noLosses: ReadonlyMap<number, ApiError> = new Map();

/**
 * Applies the rules of a single body to a check of a batch: its JSON, then `limits.bodyBytesMax` bytes.
 * Throws `invalid_request` and `body_too_large`. `batchBytes`: size of the whole body. A small batch cannot
 * hold a large check and is skipped; the reader of the check validates its JSON.
 */
export function assertSingleCheck(check: unknown, batchBytes: number): void {
  if (batchBytes <= limits.bodyBytesMax) return;
  assertSafeJson(check);
  if (Buffer.byteLength(JSON.stringify(check)) <= limits.bodyBytesMax) return;
  throw new ApiError('body_too_large', {
    message: `A check of a batch must be at most ${limits.bodyBytesMax} bytes.`,
  });
}
