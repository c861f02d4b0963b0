import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { replayAttestationsCommand } from '../../cli/verify/replay-attestations.ts';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { hourMs } from '../../shared/model/time.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { caseRoomOf } from '../support/cases/http-world.ts';
import { casesWithin } from '../support/cases/load-cases.ts';
import { playAtControlPlane } from '../support/cases/play-at-control-plane.ts';
import { changed } from '../support/data/changed-exports.ts';
import { makeAgentKey, proofFor } from '../support/data/proofs.ts';
import { replayText } from '../support/data/replay.ts';
import { type Api, type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { exportText, linesOf } from '../support/service/exports.ts';
import {
  recordFrozenWithApproval,
  recordUnheardMoves,
  recordWhileCutOff,
} from '../support/service/sidecar-records.ts';
import { approveAhead, endStanding } from '../support/service/standing-approvals.ts';
import { voidPermit } from '../support/service/void-permit.ts';
import { makeWallet, setFrozen } from '../support/service/wallets.ts';
import { recordWithheld } from '../support/service/withheld-records.ts';
import { pythonEnv, pythonFolder, pythons } from './support/python.ts';

/**
 * Two programs that share no line decide the same records again: ours, and the one in Python that was written
 * from docs/replay.md alone. Where they differ, the page leaves something open, or one of them is wrong.
 */

const folder = temporaryFolder();
const file = (name: string) => join(folder.path, name);
let api: Api;
let python: string;

beforeAll(async () => {
  [python] = await pythons();
  api = await startOwnApi();
  goToNoon(api);
  const room = await caseRoomOf(api);
  // Every third is enough of each kind, and a third of the time.
  for (const each of casesWithin([]).filter((_, place) => place % 3 === 0))
    await playAtControlPlane(api, room, each);
  await playStories();
  await playOtherStories();
  await recordWhileCutOff(api);
  await recordFrozenWithApproval(api);
  await recordUnheardMoves(api);
  await recordWithheld(api);
  writeFileSync(file('export.jsonl'), await exportText(api, '?facts=1'));
  const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
  writeFileSync(file('jwks.json'), JSON.stringify(jwks.body));
});
afterAll(async () => {
  await api.close();
  folder.remove();
});

/** What no case has: money that is settled later, people's words, standing approvals, ends, windows. */
async function playStories(): Promise<void> {
  const spending = {
    spend_limits: { daily_usd: 100, monthly_usd: 1_000 },
    rate_limits: { requests_per_hour: 9 },
  };
  const shop = await api.createGate({ constraints: { ...spending, holds: { overrun: 'charge' } } });
  const asking = { approvals: { above_usd: 1, expires_in_s: 600 } };
  const desk = await api.createGate({ constraints: { ...asking, spend_limits: { daily_usd: 50 } } });
  const limits = { rate_limits: { requests_per_day: 6 }, spend_limits: { daily_usd: 60 } };
  const agent = await api.issuePassport({ owner: 'team a', constraints: limits });
  const other = await api.issuePassport({ owner: 'team a' });
  const call = async (url: string, body: object, key = api.adminKey): Promise<Reply['body']> =>
    (await api.call({ url: `/v1/${url}`, body, key })).body;
  const ask = (gate: Reply['body'], passport: Reply['body'], amount: number, rest: object = {}) => {
    const request = { permission_key: 'orders:create', amount, ...rest };
    return call(`gates/${gate.gate_id}/check`, { passport: passport.jwt, request });
  };
  const outcome = (permit: Reply['body'], path: string, body: object) =>
    call(`attestations/${permit.attestation_id}/${path}`, body);

  await outcome(await ask(shop, agent, 10, { hold: true }), 'outcome', { outcome: 'served', amount: 4 });
  await outcome(await ask(shop, agent, 10, { hold: true }), 'outcome', { outcome: 'served', amount: 14 });
  await outcome(await ask(shop, agent, 10, { hold: true }), 'outcome', { outcome: 'failed' });
  await outcome(await ask(shop, agent, 10), 'refund', { amount: 3 });
  await outcome(await ask(shop, other, 5, { hold: true }), 'hold/extend', { expires_in_s: 3_000 });
  await ask(shop, other, 5, { hold: { expires_in_s: 60 } });
  for (let i = 0; i < 4; i++) await ask(shop, other, 30, { turn: i });
  await call(`gates/${shop.gate_id}/test`, { passport_token: agent.jwt, requested_action: 'orders:create' });

  const words = ['approve', 'deny', 'approve', null] as const;
  for (const [turn, word] of words.entries()) {
    const { approval_id: id } = await ask(desk, other, 2 + turn);
    if (word !== null) await call(`approvals/${id}/${word}`, {});
    if (turn === 2) await call(`approvals/${id}/undo`, {});
    else await ask(desk, other, 2 + turn, { approval_id: id });
  }
  await call(`gates/${desk.gate_id}/test`, {
    passport_token: other.jwt,
    requested_action: 'orders:create',
    context: { amount: 9 },
  });
  const one = await approveAhead(api, { gate_id: desk.gate_id, passport_id: agent.passport_id });
  await approveAhead(api, { gate_id: desk.gate_id, owner: 'team a' });
  for (const passport of [agent, other]) await ask(desk, passport, 8);
  await endStanding(api, one.standing_approval_id);
  await ask(desk, agent, 7);

  await call(`passports/${agent.passport_id}/suspend`, {});
  await ask(shop, agent, 1);
  api.advance(2 * hourMs);
  await expireApprovals(api.deps);
  await expireHolds(api.deps);
  await ask(shop, agent, 2);
  await call(`passports/${agent.passport_id}/reactivate`, {});
  await api.call({
    method: 'PUT',
    url: `/v1/gates/${shop.gate_id}`,
    body: { constraints: { spend_limits: { daily_usd: 40 } } },
  });
  await ask(shop, agent, 3);
  await ask(shop, other, 3);
  await call(`passports/${other.passport_id}/revoke`, {});
  api.advance(hourMs);
  await ask(shop, other, 4);
}

/** Wallets, subjects without a token, proofs of possession, and PERMITs that reached nobody. */
async function playOtherStories(): Promise<void> {
  const check = async (gate: Reply['body'], passport: string, request: object): Promise<Reply['body']> => {
    const body = { passport, request: { permission_key: 'orders:create', ...request } };
    return (await api.call({ url: `/v1/gates/${gate.gate_id}/check`, body })).body;
  };
  const plain = await api.createGate();
  for (const limits of [{ daily_usd: 5 }, { requests_per_day: 1 }, { daily_usd: 9, requests_per_day: 9 }]) {
    const { wallet_id: walletId } = await makeWallet(api, { limits });
    const { jwt } = await api.issuePassport({ wallet_id: walletId });
    for (const request of [{ amount: 4 }, { amount: 4 }, {}, { amount: 4 }]) await check(plain, jwt, request);
    await setFrozen(api, walletId, 'freeze');
    await check(plain, jwt, { amount: 1 });
  }

  const { key } = await api.createKey({ scopes: ['enforcement:check', 'enforcement:delegate'] });
  const strict = await api.createGate({ trust_level: 'L2' });
  const named = await api.issuePassport({ trust_tier: 'L3' });
  for (const gate of [plain, strict])
    for (const properties of [{}, { passport: named.jwt }]) {
      const body = {
        subject: { type: 'agent', id: named.agent_id, properties },
        action: { name: 'orders:create', properties: { amount: 5 } },
        resource: { type: 'gate', id: gate.gate_id },
      };
      expect((await api.call({ url: '/access/v1/evaluation', body, key })).status).toBe(200);
    }

  const proving = await api.createGate({ constraints: { proof_of_possession: 'required' } });
  const agentKey = makeAgentKey();
  const holder = await api.issuePassport({ public_key: agentKey.publicJwk });
  const proof = proofFor({ jwt: holder.jwt, key: agentKey });
  // By the clock of the service it is an old one; the cases have one that is good.
  for (const request of [{ proof }, {}]) await check(proving, holder.jwt, request);

  const tight = await api.createGate({
    constraints: { spend_limits: { daily_usd: 10 }, rate_limits: { requests_per_hour: 2 } },
  });
  const buyer = await api.issuePassport();
  const lost = await check(tight, buyer.jwt, { amount: 8 });
  await check(tight, buyer.jwt, { amount: 8 });
  await voidPermit(api, lost.attestation_id);
  for (const amount of [8, 2, 1]) await check(tight, buyer.jwt, { amount });
}

/** Exit code and output of a program, whatever the code is. */
const run = (args: readonly string[]) =>
  new Promise<{ readonly code: unknown; readonly text: string }>((resolve) => {
    const options = { cwd: pythonFolder, env: pythonEnv({}), maxBuffer: 64 * 1024 * 1024 };
    execFile(python, args, options, (error, text, errors) =>
      resolve({ code: error?.code ?? 0, text: text === '' ? errors : text }),
    );
  });

describe('the replay in Python', () => {
  it('reports of a real export what the command reports', async () => {
    const output: string[] = [];
    const sink = { write: (text: string) => output.push(text) };
    const files = { files: [file('export.jsonl')], jwks: file('jwks.json') };
    const code = await replayAttestationsCommand({
      ...files,
      isJson: true,
      output: sink,
      errors: { write: () => true },
    });
    const theirs = await run([
      '-m',
      'agent_trust.replay',
      file('export.jsonl'),
      '--jwks',
      file('jwks.json'),
      '--json',
    ]);
    expect(code).toBe(0);
    expect(theirs.code, theirs.text).toBe(0);
    const report = JSON.parse(output.join(''));
    expect(JSON.parse(theirs.text)).toEqual(report);
    expect(report.decisions.PERMIT.agrees).toBeGreaterThan(30);
    expect(report.decisions.BLOCK.agrees).toBeGreaterThan(20);
    expect(report.statements).toBeGreaterThan(10);
  });

  it('reports the same of exports that were changed', async () => {
    const lines = linesOf(readFileSync(file('export.jsonl'), 'utf8'));
    const reports: unknown[] = [];
    const names: string[] = [];
    for (let seed = 0; seed < 200; seed++) {
      // Few and many: what one change does is not hidden by what another does.
      const text = changed(lines, seed, 4 + (seed % 4) * 12)
        .map((line) => `${JSON.stringify(line)}\n`)
        .join('');
      writeFileSync(file(`${seed}.jsonl`), text);
      names.push(file(`${seed}.jsonl`));
      reports.push(replayText(text));
    }
    const { code, text } = await run([join(import.meta.dirname, 'support/replay_unverified.py'), ...names]);
    expect(code, text).toBe(0);
    const theirs = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    for (const [seed, report] of reports.entries()) expect(theirs[seed], `seed ${seed}`).toEqual(report);
    const faults = new Set(
      theirs.flatMap(({ contradictions }) => contradictions.map((each: { fault: string }) => each.fault)),
    );
    expect([...faults].sort()).toEqual([
      ...['approval', 'checks', 'conditions', 'decision', 'no_passport', 'trust_level'],
    ]);
    expect(theirs.some((report) => report.over_limits.length > 0)).toBe(true);
  });

  it('refuses a file that does not verify, and says that it read none', async () => {
    const lines = readFileSync(file('export.jsonl'), 'utf8').replace(
      '"decision":"PERMIT"',
      '"decision":"BLOCK"',
    );
    writeFileSync(file('forged.jsonl'), lines);
    const jwks = ['--jwks', file('jwks.json')];
    expect(await run(['-m', 'agent_trust.replay', file('forged.jsonl'), ...jwks])).toMatchObject({
      code: 5,
      text: expect.stringContaining('the hash does not match'),
    });
    expect(await run(['-m', 'agent_trust.replay', file('absent.jsonl'), ...jwks])).toMatchObject({
      code: 2,
      text: expect.stringContaining('Nothing was verified'),
    });
  });
});
