import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { replayAttestationsCommand } from '../../cli/verify/replay-attestations.ts';
import type { ReplayReport } from '../../shared/replay/replay.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { replayText } from '../support/data/replay.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { exportText } from '../support/service/exports.ts';
import { approveAhead, askingRules, order } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';

// biome-ignore lint/suspicious/noExplicitAny: lines of several kinds
type Line = any;

const api = useApi(startOwnApi);
let lines: readonly Line[];

const ids = { spender: '', asker: '', revoked: '', held: '', standing: '' };

const check = async (gateId: string, passport: string, request: object): Promise<Reply['body']> =>
  (await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } })).body;

/** Decisions of many kinds, each of which the service would make again. */
beforeAll(async () => {
  goToNoon(api);
  const constraints = {
    spend_limits: { daily_usd: 10, per_transaction_usd: 5 },
    rate_limits: { requests_per_day: 4 },
    allowed_domains: ['*.example.com'],
  };
  const { gate_id: spending } = await api.createGate({ constraints });
  // What a shadow says beside changes nothing of what is decided.
  const shadow = { trust_level: 'L2', constraints: { spend_limits: { daily_usd: 1 } } };
  await api.call({ method: 'PUT', url: `/v1/gates/${spending}/shadow`, body: shadow });
  const spender = await api.issuePassport({ permissions: ['orders:create'] });
  ids.spender = spender.passport_id;
  const there = { domain: 'shop.example.com' };
  for (const [amount, rest] of [
    [4, there],
    [6, there],
    [4, there],
    [4, there],
    [1, {}],
    [1, { domain: 'example.org' }],
    [1, { ...there, permission_key: 'orders:delete' }],
    [1, { ...there, currency: 'EUR' }],
    [1, there],
    [0, there],
    [0, there],
  ] as const)
    await check(spending, spender.jwt, order(amount, rest));

  const { gate_id: asking } = await api.createGate({ constraints: askingRules });
  const asker = await api.issuePassport({ permissions: ['orders:create'] });
  ids.asker = asker.passport_id;
  const asked = await check(asking, asker.jwt, order(2));
  expect(asked.decision).toBe('SUSPEND');
  const approvalId = asked.approval_id;
  const approved = await api.call({ url: `/v1/approvals/${approvalId}/approve`, body: {} });
  expect(approved.status, JSON.stringify(approved.body)).toBe(200);
  api.advance(10_000);
  expect((await check(asking, asker.jwt, order(2, { approval_id: approvalId }))).decision).toBe('PERMIT');
  const standing = await approveAhead(api, { gate_id: asking, passport_id: asker.passport_id });
  ids.standing = standing.standing_approval_id;
  for (const amount of [9, 8])
    expect((await check(asking, asker.jwt, order(amount))).decision).toBe('PERMIT');

  const { gate_id: plain } = await api.createGate();
  const revoked = await api.issuePassport({ permissions: ['orders:create'] });
  ids.revoked = revoked.passport_id;
  await check(plain, revoked.jwt, order(1));
  api.advance(300_000);
  await api.call({ url: `/v1/passports/${revoked.passport_id}/revoke`, body: {} });
  api.advance(300_000);
  expect((await check(plain, revoked.jwt, order(1))).reason).toBe('passport_revoked');

  const { gate_id: holding } = await api.createGate({ constraints: { spend_limits: { daily_usd: 22 } } });
  const held = await api.issuePassport({ permissions: ['orders:create'] });
  ids.held = held.passport_id;
  for (let count = 0; count < 3; count++) {
    const { attestation_id: id } = await check(holding, held.jwt, order(15, { hold: true }));
    await api.call({ url: `/v1/attestations/${id}/outcome`, body: { outcome: 'served', amount: 3 } });
  }
  lines = (await exportText(api))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
});

const textOf = (all: readonly Line[]) => `${all.map((line) => JSON.stringify(line)).join('\n')}\n`;
const recordsOf = (passportId: string) => lines.filter((line) => line.passport_id === passportId);

/** The report of the export with other lines in place of some. */
const changed = (change: (line: Line) => Line | undefined): ReplayReport =>
  replayText(textOf(lines.map((line) => change(structuredClone(line)) ?? line)));

const at = (record: Line, about: Partial<Line>) => (line: Line) =>
  line.id === record.id ? { ...line, ...about } : undefined;

const named = ({ contradictions }: ReplayReport) =>
  contradictions.map(({ id, fault, expected }) => ({ id, fault, expected }));

describe('a replay', () => {
  it('gives each decision again', () => {
    const report = replayText(textOf(lines));
    expect(report).toEqual({
      decisions: {
        PERMIT: { agrees: 11, contradicted: 0, unjudged: 0 },
        SUSPEND: { agrees: 0, contradicted: 0, unjudged: 0 },
        BLOCK: { agrees: 7, contradicted: 0, unjudged: 1 },
      },
      ...{ statements: 4, unjudged: { request: 1 }, contradictions: [], contradictions_unnamed: 0 },
      ...{ over_limits: [], over_limits_unnamed: 0 },
    });
  });

  it.each([
    ['permission_key', 'orders:delete', 'permission_not_granted'],
    ['amount_micro_usd', 6_000_000, 'spend_limit_exceeded'],
    ['amount_micro_usd', null, 'amount_missing'],
    ['domain', 'example.org', 'domain_not_allowed'],
    ['domain', null, 'domain_missing'],
  ])('contradicts a PERMIT with another %s: %s', (member, value, reason) => {
    const [permit] = recordsOf(ids.spender);
    expect(named(changed(at(permit, { [member]: value })))).toEqual([
      { id: permit.id, fault: 'decision', expected: { decision: 'BLOCK', reason } },
    ]);
  });

  it('contradicts a BLOCK that has another reason, or none', () => {
    const block = recordsOf(ids.spender).find(({ reason }) => reason === 'domain_not_allowed');
    for (const reason of ['trust_level_insufficient', 'state_stale', 'permission_missing'])
      expect(named(changed(at(block, { reason })))).toMatchObject([{ id: block.id, fault: 'decision' }]);
    const [permit] = recordsOf(ids.revoked);
    const refused = changed(at(permit, { decision: 'BLOCK', reason: 'permission_not_granted' }));
    expect(named(refused)).toMatchObject([{ id: permit.id, expected: { decision: 'PERMIT', reason: null } }]);
  });

  it('contradicts a decision with other checks, at another trust level, or of no passport', () => {
    const [permit] = recordsOf(ids.spender);
    expect(named(changed(at(permit, { constraints_evaluated: ['passport'] })))).toMatchObject([
      { id: permit.id, fault: 'checks' },
    ]);
    expect(named(changed(at(permit, { trust_level: 'L3' })))).toMatchObject([{ fault: 'trust_level' }]);
    expect(named(changed(at(permit, { passport_id: null })))).toMatchObject([{ fault: 'no_passport' }]);
  });

  it('contradicts a PERMIT under a policy that would not have given it', () => {
    const [{ policy_hash: hash }] = recordsOf(ids.revoked);
    const stricter = changed((line) => {
      if (line.policy?.policy_hash !== hash) return undefined;
      line.policy.body.constraints = { approvals: { permissions: ['orders:create'] } };
      return line;
    });
    const expected = { decision: 'SUSPEND', reason: 'approval_required' };
    expect(named(stricter)).toMatchObject([{ fault: 'decision', expected }]);
  });

  it('believes a policy, a passport or an approval that it cannot read to permit nothing', () => {
    const unknown = changed((line) => {
      if (line.policy !== undefined) line.policy.body.constraints = { of_tomorrow: true };
      return line;
    });
    expect(unknown.contradictions).toEqual([]);
    expect(unknown.decisions.PERMIT).toEqual({ agrees: 0, contradicted: 0, unjudged: 11 });
    expect(unknown.unjudged).toEqual({ policy_unknown: 19 });
    const without = (kind: string) => replayText(textOf(lines.filter((line) => !(kind in line))));
    expect(without('passport').unjudged).toEqual({ passport_removed: 19 });
    expect(without('policy').unjudged).toEqual({ policy_missing: 19 });
    expect(without('approval').unjudged).toEqual({ approval_removed: 3, request: 1 });
  });

  it('contradicts a PERMIT of a passport that was revoked when the state was young enough', () => {
    const [permit, block] = recordsOf(ids.revoked);
    const expected = { decision: 'BLOCK', reason: 'passport_revoked' };
    const later = (state_age_ms: number | null) =>
      changed(at(permit, { timestamp: block.timestamp, state_age_ms }));
    for (const age of [null, 0, 200_000])
      expect(named(later(age))).toMatchObject([{ id: permit.id, expected }]);
    // It was older than the revocation, by a clock that may differ by a minute.
    for (const age of [241_000, 400_000]) expect(later(age).contradictions).toEqual([]);
    const early = changed((line) => {
      if (line.passport?.body.passport_id !== ids.revoked) return undefined;
      line.passport.body.status_changes = [];
      return line;
    });
    expect(early.contradictions).toEqual([]);
    expect(early.unjudged).toEqual({ request: 1, standing: 1 });
  });

  it('contradicts PERMITs without the approval that they name', () => {
    const records = recordsOf(ids.asker);
    const [permit] = records.filter(
      ({ decision, approval_id: id }) => decision === 'PERMIT' && id?.startsWith('appr_'),
    );
    const [end] = records.filter(({ resolution }) => resolution === 'approved');
    for (const resolution of ['denied', 'expired'])
      expect(named(changed(at(end, { resolution })))).toEqual([
        { id: permit.id, fault: 'approval', expected: null },
      ]);
    // Undone, it was not approved; that an approval of a voided PERMIT expired later says nothing.
    const followedBy = (resolution: string) =>
      replayText(
        textOf(lines.flatMap((line) => (line.id === end.id ? [line, { ...line, resolution }] : [line]))),
      );
    expect(named(followedBy('voided'))).toEqual([{ id: permit.id, fault: 'approval', expected: null }]);
    expect(named(followedBy('expired'))).toEqual([]);
    const late = new Date(Date.parse(permit.timestamp) + 61_000).toISOString();
    expect(named(changed(at(end, { timestamp: late })))).toMatchObject([{ fault: 'approval' }]);
    const expected = { decision: 'SUSPEND', reason: 'approval_required' };
    expect(named(changed(at(permit, { approval_id: null })))).toEqual([
      { id: permit.id, fault: 'decision', expected },
    ]);
    const gone = replayText(textOf(lines.filter((line) => line.id !== end.id)));
    expect([gone.contradictions, gone.unjudged['approval_before']]).toEqual([[], 1]);
  });

  it('holds PERMITs against what a standing approval permits, each and in all', () => {
    const changeTerms = (terms: object) =>
      changed((line) => {
        if (line.approval?.body.approval_id !== ids.standing) return undefined;
        Object.assign(line.approval.body, terms);
        return line;
      });
    expect(changeTerms({ each_micro_usd: 8_500_000 }).contradictions).toHaveLength(1);
    expect(changeTerms({ permission_key: 'orders:read' }).contradictions).toHaveLength(2);
    const ended = new Date(Date.parse(recordsOf(ids.asker)[0].timestamp) - 3_600_000).toISOString();
    expect(changeTerms({ ended_at: ended }).contradictions).toHaveLength(2);
    expect(changeTerms({ total_micro_usd: 17_000_000 }).over_limits).toEqual([]);
    expect(changeTerms({ total_micro_usd: 16_999_999 }).over_limits).toMatchObject([
      { counter: ids.standing, window: 'total', limit: 16_999_999, units: 17_000_000 },
    ]);
  });

  it('adds up what PERMITs took of each limit', () => {
    const [permit] = recordsOf(ids.spender);
    const dearer = changed(at(permit, { amount_micro_usd: 5_000_000 }));
    expect(dearer.over_limits).toEqual([]);
    const [{ policy_hash: hash }] = recordsOf(ids.spender);
    const limited = (limits: object) =>
      changed((line) => {
        if (line.policy?.policy_hash !== hash) return undefined;
        Object.assign(line.policy.body.constraints, limits);
        return line;
      });
    const spend = { daily_usd: 8.99, per_transaction_usd: 5 };
    expect(limited({ spend_limits: spend }).over_limits).toMatchObject([
      { counter: `gate_spend:${permit.gate_id}`, window: 'day', limit: 8_990_000, units: 9_000_000 },
    ]);
    expect(limited({ rate_limits: { requests_per_day: 3 } }).over_limits).toMatchObject([
      { counter: `gate_rate:${permit.gate_id}`, window: 'day', limit: 3, units: 4 },
    ]);
    // By clocks that differ, four of one minute may be of three.
    expect(limited({ rate_limits: { requests_per_minute: 2 } }).over_limits).toEqual([]);
    expect(limited({ rate_limits: { requests_per_minute: 1 } }).over_limits).toHaveLength(1);
    // Limits with room explain no BLOCK.
    const roomy = limited({ rate_limits: { requests_per_day: 400 } });
    expect(roomy.contradictions).toEqual([]);
    expect(roomy.unjudged).toEqual({ request: 1, units: 1 });
  });

  it('names the first hundred contradictions in the order of the file', () => {
    const blocks = recordsOf(ids.spender).filter(({ decision }) => decision === 'BLOCK');
    const atLimits = blocks.filter(({ reason }) => reason.endsWith('_limit_exceeded'));
    expect(atLimits.length).toBeGreaterThan(0);
    expect(atLimits.length).toBeLessThan(blocks.length);
    const wrong = Array.from({ length: 40 }, (_, turn) =>
      blocks.map((block) => ({ ...block, id: block.id.slice(0, -2) + String(turn + 10), trust_level: 'L3' })),
    ).flat();
    const report = replayText(textOf([...lines, ...wrong]));
    expect(report.contradictions.map(({ id }) => id)).toEqual(wrong.slice(0, 100).map(({ id }) => id));
    expect(report.contradictions_unnamed).toBe(wrong.length - 100);
  });

  it('counts what a held PERMIT came to in the end, and nothing that was voided', () => {
    const settled = recordsOf(ids.held).filter(({ resolution }) => resolution === 'settled');
    expect(settled).toHaveLength(3);
    const without = (left: readonly Line[]) =>
      replayText(textOf(lines.filter((line) => !left.includes(line))));
    expect(without(settled.slice(1)).over_limits).toMatchObject([{ units: 33_000_000, limit: 22_000_000 }]);
    const [first] = settled;
    const voiding = (line: Line) =>
      settled.slice(1).some(({ id }) => id === line.id) ? { ...line, resolution: 'voided' } : undefined;
    expect(changed(voiding).over_limits).toEqual([]);
    // An overrun is taken from the limits of the moment in which it is reported.
    expect(changed(at(first, { amount_micro_usd: 30_000_000 })).over_limits).toEqual([]);
  });
});

describe('agent-trust attestations replay', () => {
  const folder = temporaryFolder();
  afterAll(() => folder.remove());

  const run = async (file: string, isJson = false) => {
    const [output, errors]: [string[], string[]] = [[], []];
    const code = await replayAttestationsCommand({
      files: [file],
      jwks: join(folder.path, 'jwks.json'),
      isJson,
      output: { write: (text) => output.push(text) },
      errors: { write: (text) => errors.push(text) },
    });
    return { code, output: output.join(''), errors: errors.join('') };
  };

  it('verifies a file, decides it again and says what it found, in every format that verifies', async () => {
    const { body: jwks } = await api.call({ url: '/.well-known/jwks.json', key: null });
    writeFileSync(join(folder.path, 'jwks.json'), JSON.stringify(jwks));
    for (const format of ['jsonl', 'json']) {
      const file = join(folder.path, format);
      writeFileSync(file, await exportText(api, `?format=${format}`));
      const text = await run(file);
      expect(text).toMatchObject({ code: 0, errors: '' });
      expect(text.output).toContain('OK: 18 decisions decided again alike; 1 not judged, 4 records of ends.');
      const asJson = await run(file, true);
      expect(JSON.parse(asJson.output)).toMatchObject({ statements: 4, unjudged: { request: 1 } });
      expect(asJson.errors).toContain('Every hash, link and signature verifies');
    }
    const changedFile = join(folder.path, 'changed');
    writeFileSync(changedFile, (await exportText(api)).replace('"reason":"domain_missing"', '"reason":null'));
    const refused = await run(changedFile);
    expect(refused.code).toBe(5);
    expect(refused.output).toMatch(/^NOT OK: line /);
    expect(await run('-')).toMatchObject({ code: 2, output: '' });
  });

  it('reads records that hold line separators, which are no ends of lines', async () => {
    const { gate_id: gateId } = await api.createGate({ constraints: { pii_controls: { mode: 'log_only' } } });
    const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
    const decisions = async () => {
      const file = join(folder.path, 'separators');
      writeFileSync(file, await exportText(api));
      return JSON.parse((await run(file, true)).output).decisions.PERMIT.agrees;
    };
    const before = await decisions();
    const { pii } = await check(gateId, jwt, order(1, { 'a\u2028b\u2029c\u0085d': 'ann@example.com' }));
    expect(pii).toMatchObject([{ pointer: '/a\u2028b\u2029c\u0085d' }]);
    expect(await decisions()).toBe(before + 1);
  });

  it('names what contradicts a file that verifies', async () => {
    const { gate_id: gateId } = await api.createGate();
    const { jwt, passport_id: passportId } = await api.issuePassport({ permissions: ['orders:create'] });
    await check(gateId, jwt, order(1));
    // The service itself lies: it changed the passport after the fact, and signs what it has now.
    await api.deps.sql`UPDATE passports SET permissions = '{orders:read}' WHERE passport_id = ${passportId}`;
    const file = join(folder.path, 'lie');
    writeFileSync(file, await exportText(api));
    const { code, output } = await run(file);
    expect(code).toBe(5);
    expect(output).toContain(`  ${passportId}, sequence 1 (att_`);
    expect(output).toContain('PERMIT: decision, expected BLOCK permission_not_granted');
  });
});
