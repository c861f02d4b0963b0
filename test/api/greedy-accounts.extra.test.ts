import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { decideRequest } from '../../control-plane/decisions/decide-request.ts';
import { decisionsLimits } from '../../control-plane/decisions/limits.ts';
import { tokenVerifier } from '../../control-plane/decisions/token-verifier.ts';
import type { Caller } from '../../control-plane/http/caller.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { parseRequestFacts } from '../../shared/wire/api/check.ts';
import { until } from '../support/base/until.ts';
import { callerOfAccount } from '../support/data/caller.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';

let api: Api;
beforeAll(async () => {
  api = await startOwnApi();
});
afterAll(() => api?.close());

type Ask = () => Promise<string>;

/** Asks at a gate of a new account. Resolves to the decision or the code of the error. */
async function newAccount(): Promise<Ask> {
  const { accountId, key } = await api.createAccount();
  const caller = callerOfAccount(api.deps, accountId as Caller['accountId']);
  const gateId = (await api.createGate({}, key)).gate_id as GateId;
  const { jwt: token } = await api.issuePassport({}, key);
  const verdict = tokenVerifier(api.deps)(token);
  const asked = { permission_key: 'orders:create' };
  const call = { caller, gateId, token, verdict, asked, request: parseRequestFacts(asked), isTest: false };
  return () =>
    decideRequest(api.deps, call).then(
      (answer) => (answer.kind === 'decided' ? answer.decision.outcome : answer.kind),
      (error: { code?: string }) => error.code ?? String(error),
    );
}

it('an account that asks for little is answered before the others, while they fill all places', async () => {
  const { waitingMax, waitingPerAccountMax, batchMax } = decisionsLimits.checks;
  const greedy = await Promise.all(Array.from({ length: waitingMax / waitingPerAccountMax + 1 }, newAccount));
  const modest = await newAccount();
  expect(await modest()).toBe('PERMIT');

  const answers: Record<string, number> = {};
  const greedyTimes: number[] = [];
  let isOver = false;
  // More than there are places for, all the time. What is answered is asked again at once.
  const flood = async (ask: Ask) => {
    while (!isOver) {
      const beganAtMs = performance.now();
      const word = await ask();
      answers[word] = (answers[word] ?? 0) + 1;
      if (word === 'PERMIT') greedyTimes.push(performance.now() - beganAtMs);
      else await pause(50);
    }
  };
  const floods = greedy.flatMap((ask) =>
    Array.from({ length: waitingPerAccountMax + 2 * batchMax }, () => flood(ask)),
  );
  await until(() => (answers['PERMIT'] ?? 0) > waitingMax, { what: 'places that were taken twice' });

  const words: string[] = [];
  const times: number[] = [];
  for (let n = 0; n < 20; n++) {
    const beganAtMs = performance.now();
    words.push(await modest());
    times.push(performance.now() - beganAtMs);
  }
  isOver = true;
  await Promise.all(floods);
  const inOrder = (all: readonly number[]) => all.toSorted((one, other) => one - other);
  const usualMs = inOrder(greedyTimes)[greedyTimes.length >> 1] ?? 0;
  const told = JSON.stringify({ words, times: times.map(Math.round), usualMs, answers });
  expect(new Set(words), told).toEqual(new Set(['PERMIT']));
  expect(inOrder(times).at(-2), told).toBeLessThan(usualMs);
  expect(Object.keys(answers).sort(), told).toEqual(['PERMIT', 'overloaded']);
  // The others are served beside it, each of them.
  expect(await Promise.all(greedy.map((ask) => ask()))).toEqual(greedy.map(() => 'PERMIT'));
});
