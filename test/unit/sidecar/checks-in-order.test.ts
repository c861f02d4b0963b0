import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import { type CheckItem, ChecksInOrder, type InOrderDeps } from '../../../sidecar/enforce/checks-in-order.ts';
import type { OpenRequestHead } from '../../../sidecar/enforce/open-request.ts';
import { type CheckReply, errorReply } from '../../../sidecar/enforce/replies.ts';

const requestId = 'req_01' as RequestId;
const head = {} as OpenRequestHead;

/** What the enforcer and the verifier were given, and when they answer. */
function ports() {
  const asked: unknown[] = [];
  const answers: (() => void)[] = [];
  const verifications: (() => void)[] = [];
  const deps: InOrderDeps = {
    enforcer: {
      ask: (_head, body, responder) => {
        asked.push(body);
        const error = new ApiError('invalid_request');
        answers.push(() => responder.reply({ status: 200, body: String(body), error }));
      },
      failure: (error) => errorReply(error as ApiError, requestId),
    },
    verifier: {
      known: (token) => (token === 'known' ? ({} as VerifiedPassport) : null),
      verify: (_token, settle) => verifications.push(() => settle({ kind: 'overloaded' })),
    },
  };
  return { asked, answers, verifications, deps };
}

const check = (body: unknown, token = 'known'): CheckItem => ({ kind: 'check', head, body, token });
const many = (count: number) => Array.from({ length: count }, (_, place) => check(place));

describe('checks that came in one body', () => {
  it('are decided a bounded number in each turn of the event loop', async () => {
    const { asked, deps } = ports();
    const responder = { isAborted: false };
    new ChecksInOrder(deps, { items: many(80), requestId, responder, onEnd: () => undefined }).begin();
    expect(asked).toHaveLength(limits.batchChecksPerTurn);
    while (asked.length < 80) await nextTurn();
    expect(asked).toEqual(Array.from({ length: 80 }, (_, place) => place));
  });

  it('are decided no more once their client has gone', async () => {
    const { asked, deps } = ports();
    const responder = { isAborted: false };
    new ChecksInOrder(deps, { items: many(80), requestId, responder, onEnd: () => undefined }).begin();
    responder.isAborted = true;
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect(asked).toHaveLength(limits.batchChecksPerTurn);
  });

  it('wait for the passports of all, and are answered in order whichever answer comes first', () => {
    const { asked, answers, verifications, deps } = ports();
    const ended: (readonly CheckReply[])[] = [];
    const items = [check('a'), check('b', 'unknown'), check('c', 'unknown')];
    const responder = { isAborted: false };
    const onEnd = (replies: readonly CheckReply[]) => ended.push(replies);
    new ChecksInOrder(deps, { items, requestId, responder, onEnd }).begin();
    expect([asked, verifications.length]).toEqual([[], 1]);
    verifications[0]?.();
    expect(asked).toEqual(['a', 'b', 'c']);
    for (const answer of answers.toReversed()) answer();
    expect(ended.map((replies) => replies.map(({ body }) => body))).toEqual([['a', 'b', 'c']]);
  });

  it('are decided one after the other where an answer may end them', async () => {
    const { asked, answers, deps } = ports();
    const ended: (readonly CheckReply[])[] = [];
    const refused: CheckItem = { kind: 'refused', error: new ApiError('gate_not_found') };
    new ChecksInOrder(deps, {
      items: [check('a'), refused, check('b'), check('c')],
      requestId,
      responder: { isAborted: false },
      endsWith: ({ body }) => body === 'b',
      onEnd: (replies) => ended.push(replies),
    }).begin();
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    expect(asked).toEqual(['a']);
    answers[0]?.();
    while (asked.length < 2) await nextTurn();
    expect(ended).toEqual([]);
    answers[1]?.();
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    expect(asked).toEqual(['a', 'b']);
    expect(ended.map((replies) => replies.map(({ status }) => status))).toEqual([[200, 404, 200]]);
  });
});
