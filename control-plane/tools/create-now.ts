import type { Deps } from '../deps.ts';
import type { AnswerBody } from '../http/answer-secrets.ts';
import type { Creation } from '../http/idempotency.ts';
import { changeTransaction } from '../sync/change-transaction.ts';

/** Creates without an `Idempotency-Key`, which a tool call has no place for, and renders what was created. */
export const createNow = <Made>(deps: Deps, { create, render }: Creation<Made>): Promise<AnswerBody> =>
  changeTransaction(deps, async (tx, change) => render(await create(tx, change)));
