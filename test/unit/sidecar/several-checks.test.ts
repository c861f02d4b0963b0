import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { RequestWriter } from '../../../shared/crypto/request-writer.ts';
import type { VerifiedPassport } from '../../../shared/decision/facts.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import type { CheckHead, OpenCheck, ReadyCheck } from '../../../sidecar/decide/check.ts';
import { type CheckReply, errorReply } from '../../../sidecar/decide/replies.ts';
import { KeptBodies } from '../../../sidecar/intake/kept-bodies.ts';
import { intakeLimits } from '../../../sidecar/intake/limits.ts';
import {
  type CheckItem,
  type CheckList,
  SeveralChecks,
  type SeveralChecksDeps,
} from '../../../sidecar/intake/several-checks.ts';
import { Turns } from '../../../sidecar/intake/turns.ts';
import type { TokenOutcome } from '../../../sidecar/verify/verifier.ts';
import { keepBusy } from '../../support/base/keep-busy.ts';

const requestId = 'req_01' as RequestId;
const head = {} as CheckHead;

/** What the intake was given, and when it answers. */
function ports() {
  const asked: unknown[] = [];
  const answers: (() => void)[] = [];
  const verifications: (() => void)[] = [];
  let aheadMs = 0;
  const deps: SeveralChecksDeps = {
    intake: {
      open: (_head, responder) => ({ responder, token: null, isOpen: true }) as OpenCheck,
      prepare: (check, { call }, whenReady) => {
        const ready = Object.assign(check, { asked: call.request }) as ReadyCheck;
        const settle = (token: TokenOutcome): ReadyCheck => Object.assign(ready, { token });
        if (call.passport === 'known') settle({ kind: 'verified', passport: {} as VerifiedPassport });
        else verifications.push(() => whenReady(settle({ kind: 'overloaded' })));
        return ready;
      },
      decide: ({ responder, asked: request }) => {
        const n = request['n'];
        asked.push(n);
        const error = new ApiError('invalid_request');
        answers.push(() => responder.reply({ status: 200, requestId, body: String(n), error }));
      },
      moment: () => ({ monotonicMs: aheadMs as MonotonicMillis, nowMs: 0 as UnixMillis }),
    },
    answers: { failure: (error) => errorReply(error as ApiError, requestId) },
    turns: new Turns(),
    bodies: new KeptBodies(),
    writer: new RequestWriter(),
  };
  const pass = (ms: number): void => {
    aheadMs += ms;
  };
  const ended: (readonly CheckReply[])[] = [];
  const refusals: unknown[] = [];
  /** Begins checks with these items, and answers whoever sent them. */
  const begin = (items: readonly CheckItem[], rest: Pick<CheckList, 'endsWith'> & { body?: Buffer } = {}) => {
    const responder = { isAborted: false };
    const { body, ...others } = rest;
    new SeveralChecks(deps, {
      list: () => ({ items, onEnd: (replies) => ended.push(replies), ...others }),
      requestId,
      traceparent: '',
      responder,
      onRefused: (error) => refusals.push((error as ApiError).code),
    }).begin(body);
    return responder;
  };
  return { asked, answers, verifications, deps, ended, refusals, begin, pass };
}

const check =
  (n: unknown, passport = 'known'): CheckItem =>
  () => ({ head, read: { call: { passport, request: { n } }, canonical: null } });
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
const many = (count: number) => numbers(count).map((n) => check(n));

describe('checks that came in one body', () => {
  it('are late by the time of their arrival, and decided at the time of their turn', async () => {
    const { deps, pass, ended } = ports();
    const opened: number[] = [];
    const decidedAt: number[] = [];
    const intake: SeveralChecksDeps['intake'] = {
      ...deps.intake,
      open: (_head, responder, arrivedAtMs, moment) => {
        if (moment.monotonicMs - arrivedAtMs >= limits.decisionDeadlineMs) throw new ApiError('overloaded');
        opened.push(arrivedAtMs);
        return deps.intake.open(head, responder, arrivedAtMs, moment);
      },
      decide: (each, moment) => {
        decidedAt.push(moment.monotonicMs);
        each.responder.reply({ ...errorReply(new ApiError('invalid_request'), requestId), body: '' });
      },
    };
    const ahead = intakeLimits.checksPerTurnMax;
    const list = () => ({ items: many(2 * ahead), onEnd: (all: readonly CheckReply[]) => ended.push(all) });
    const refused = { traceparent: '', onRefused: () => undefined, responder: { isAborted: false } };
    new SeveralChecks({ ...deps, intake }, { list, requestId, ...refused }).begin();
    expect(opened).toHaveLength(ahead);
    pass(limits.decisionDeadlineMs - 1);
    await nextTurn();
    expect(opened).toEqual(Array(2 * ahead).fill(0));
    expect(decidedAt.slice(ahead)).toEqual(Array(ahead).fill(limits.decisionDeadlineMs - 1));
    new SeveralChecks({ ...deps, intake }, { list, requestId, ...refused }).begin();
    await nextTurn();
    pass(limits.decisionDeadlineMs);
    await nextTurn();
    expect(
      ended[1]?.slice(ahead).every((reply) => 'error' in reply && reply.error.code === 'overloaded'),
    ).toBe(true);
  });

  it('are not read before their turn has come, and then from the bytes as they were', async () => {
    const { deps } = ports();
    const busy = keepBusy(deps.turns);
    const read: string[] = [];
    const body = Buffer.from('checks');
    new SeveralChecks(deps, {
      list: (bytes) => {
        read.push(String(bytes));
        return { items: [], onEnd: () => undefined };
      },
      requestId,
      traceparent: '',
      responder: { isAborted: false },
      onRefused: () => undefined,
    }).begin(body);
    // The server uses its memory again.
    body.fill(0);
    expect(read).toEqual([]);
    busy.isOver = true;
    while (read.length === 0) await nextTurn();
    expect(read).toEqual(['checks']);
  });

  it('are refused while as many bytes wait as may, and taken again afterwards', async () => {
    const { deps, begin, asked, refusals } = ports();
    const busy = keepBusy(deps.turns);
    const body = Buffer.alloc(limits.batchBodyBytesMax);
    const fits = intakeLimits.keptBytesMax / body.byteLength;
    for (let n = 0; n < fits; n++) begin([check(n)], { body });
    expect(refusals).toEqual([]);
    begin([check('too many')], { body });
    expect(refusals).toEqual(['overloaded']);
    busy.isOver = true;
    while (asked.length < fits) await nextTurn();
    begin([check('again')], { body });
    while (asked.length === fits) await nextTurn();
    expect(asked).toEqual([...numbers(fits), 'again']);
    expect(refusals).toHaveLength(1);
  });

  it('make way for others when their client has gone while they waited', async () => {
    const { deps, begin, asked } = ports();
    const busy = keepBusy(deps.turns);
    const body = Buffer.alloc(intakeLimits.keptBytesMax);
    const gone = begin(many(3), { body });
    gone.isAborted = true;
    busy.isOver = true;
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    expect(asked).toEqual([]);
    keepBusy(deps.turns).isOver = true;
    begin([check('next')], { body });
    while (asked.length === 0) await nextTurn();
    expect(asked).toEqual(['next']);
  });

  it('are decided no more once their client has gone', async () => {
    const { asked, begin } = ports();
    const responder = begin(many(80));
    responder.isAborted = true;
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect(asked).toHaveLength(intakeLimits.checksPerTurnMax);
  });

  it('wait for the passports before them, and are answered in order whichever answer comes first', async () => {
    const { asked, answers, verifications, ended, begin } = ports();
    begin([check('a'), check('b', 'unknown'), check('c'), check('d', 'unknown')]);
    expect([asked, verifications.length]).toEqual([['a'], 2]);
    verifications[1]?.();
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    expect(asked).toEqual(['a']);
    verifications[0]?.();
    while (asked.length < 4) await nextTurn();
    expect(asked).toEqual(['a', 'b', 'c', 'd']);
    for (const answer of answers.toReversed()) answer();
    expect(ended.map((replies) => replies.map(({ body }) => body))).toEqual([['a', 'b', 'c', 'd']]);
  });

  it('are decided one after the other where an answer may end them', async () => {
    const { asked, answers, ended, begin } = ports();
    const refused: CheckItem = () => {
      throw new ApiError('gate_not_found');
    };
    begin([check('a'), refused, check('b'), check('c')], { endsWith: ({ body }) => body === 'b' });
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
