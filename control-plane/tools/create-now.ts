import { administer } from '../audit/administer.ts';
import type { Creation } from '../creation/idempotency.ts';
import type { AnswerBody } from '../http/answer-secrets.ts';
import type { Caller } from '../http/caller.ts';
import type { ToolDeps } from './deps.ts';

/** Creates without an `Idempotency-Key`, which a tool call has no place for, and renders what was created. */
export async function createNow<Created>(
  deps: ToolDeps,
  caller: Caller,
  { create, afterCommit, render, audit }: Creation<Created>,
): Promise<AnswerBody> {
  const made = await administer(deps, caller, async (tx, change) => {
    const result = await create(tx, change);
    return { result, audited: audit(result) };
  });
  await afterCommit?.(made);
  return render(made);
}
