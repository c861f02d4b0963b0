import { describe, expect, it } from 'vitest';
import { forgetDisplays } from '../../control-plane/approvals/approval-store.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { dayMs, secondMs } from '../../shared/model/time.ts';
import { parseRequestFacts } from '../../shared/wire/api/check.ts';
import { refusal } from '../support/base/refusal.ts';
import { until } from '../support/base/until.ts';
import { asListed, openAnApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startSidecarPair } from '../support/service/sidecar-pair.ts';
import { useStarted } from '../support/service/use-api.ts';

const display = {
  title: 'Pay invoice 4711',
  lines: [
    { label: 'Supplier', value: 'Nordwind Möbel' },
    { label: 'Contact', value: 'mia@example.com' },
  ],
  url: 'https://shop.example.com/invoices/4711',
};
const order = { permission_key: 'orders:create', amount: 80, display };
const rules = { approvals: { above_usd: 50 } };

const pair = useStarted(startSidecarPair);

const approvalOf = async (id: string) => asListed((await pair.api.call({ url: `/v1/approvals/${id}` })).body);

/** The doors that open approvals: a sidecar, and the control plane. */
const doors = [
  ['a sidecar', (gateId: string, token: string, request: object) => pair.check(0, gateId, token, request)],
  [
    'the control plane',
    (gateId: string, passport: string, request: object) =>
      pair.api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } }),
  ],
] as const;

describe.each(doors)('request.display at %s', (_door, check) => {
  it('is shown with the approval, in its event and list, and in no record', async () => {
    const { gateId, token, passport } = await pair.setUp({ gate: rules });
    const { body } = await check(gateId, token, order);
    expect(body.decision).toBe('SUSPEND');
    const approval = await approvalOf(body.approval_id);
    expect(approval).toMatchObject({
      display,
      approval_url: expect.stringMatching(new RegExp(`^http.*/console/approvals/${body.approval_id}$`)),
      approval_api_url: expect.stringMatching(new RegExp(`^http.*/v1/approvals/${body.approval_id}$`)),
    });
    const { items } = (await pair.api.call({ url: '/v1/approvals?status=pending' })).body;
    expect(items.find((each: { approval_id: string }) => each.approval_id === body.approval_id)).toEqual(
      approval,
    );
    await pair.api.call({ url: `/v1/approvals/${body.approval_id}/approve`, body: {} });
    const permit = await check(gateId, token, { ...order, approval_id: body.approval_id });
    expect(permit.body.decision).toBe('PERMIT');
    const records = await pair.api.call({ url: `/v1/attestations?passport_id=${passport.passport_id}` });
    expect(JSON.stringify(records.body)).not.toContain('Nordwind');
    const audit = await pair.api.call({ url: `/v1/audit?target=${body.approval_id}` });
    expect(audit.body.entries ?? audit.body.items).toHaveLength(1);
    expect(JSON.stringify(audit.body)).not.toContain('Nordwind');
  });

  it('is scanned like the rest: blocked, or shown without what the gate redacts', async () => {
    const pii = (mode: string) => ({ ...rules, pii_controls: { mode, types: ['email'] } });
    const strict = await pair.setUp({ gate: pii('block') });
    expect((await check(strict.gateId, strict.token, order)).body).toMatchObject({
      decision: 'BLOCK',
      reason: 'pii_detected',
      pii: [{ pointer: '/display/lines/1/value', type: 'email' }],
    });
    const redacting = await pair.setUp({ gate: pii('redact') });
    const { body } = await check(redacting.gateId, redacting.token, order);
    expect((await approvalOf(body.approval_id)).display).toEqual({
      ...display,
      lines: [display.lines[0], { label: 'Contact', value: '[redacted:email]' }],
    });
  });

  it('that is redacted may be longer than it was', async () => {
    const { gateId, token } = await pair.setUp({
      gate: { ...rules, pii_controls: { mode: 'redact', types: ['email'] } },
    });
    const many = Array.from({ length: 200 }, () => 'a@b.co').join(' ');
    const { body } = await check(gateId, token, { ...order, display: { title: many, lines: [] } });
    const { title } = (await approvalOf(body.approval_id)).display;
    expect(title).toBe(many.replaceAll('a@b.co', '[redacted:email]'));
  });
});

it.each<[string, string, unknown]>([
  ['display', 'a text', 'Pay'],
  ['display.title', 'an empty title', { title: '', lines: [] }],
  ['display.lines.0.value', 'half a line', { title: 'Pay', lines: [{ label: 'To' }] }],
  ['display.note', 'an unknown member', { title: 'Pay', lines: [], note: 'x' }],
  ['display.title', 'a bidirectional override', { title: 'Pay \u202e4711', lines: [] }],
  [
    'display.lines.0.label',
    'a line separator',
    { title: 'Pay', lines: [{ label: 'To\u2028', value: 'me' }] },
  ],
  ['display.url', 'another scheme', { title: 'Pay', lines: [], url: 'javascript:alert(1)' }],
  ['display.url', 'a backslash', { title: 'Pay', lines: [], url: 'https://bank.test\\@evil.test/' }],
  ['display.url', 'user information', { title: 'Pay', lines: [], url: 'https://bank.test@evil.test/' }],
  ['display', 'more than 2 KiB', { title: 'é'.repeat(1_020), lines: [] }],
  ['display.lines', '65 lines', { title: 'Pay', lines: Array(65).fill({ label: 'a', value: '' }) }],
])('400: names %s with %s', (param, _what, given) => {
  const display = refusal(() => parseRequestFacts({ ...order, display: given }));
  expect(display).toMatchObject({ code: 'invalid_request', param: `request.${param}` });
});

it('a display of exactly 2 KiB is taken', () => {
  const empty = JSON.stringify({ title: '', lines: [] }).length;
  const full = { title: 'x'.repeat(2_048 - empty), lines: [] };
  expect(parseRequestFacts({ ...order, display: full }).display?.title).toBe(full.title);
});

it('is forgotten 90 days after the end of its approval, and not before', async () => {
  const { gateId, token } = await pair.setUp({ gate: rules });
  const { body } = await pair.check(0, gateId, token, order);
  const { expires_at } = await approvalOf(body.approval_id);
  const endMs = Date.parse(expires_at);
  const { sql } = pair.api.deps;
  const forget = async (nowMs: number) =>
    forgetDisplays(sql, nowMs as Parameters<typeof forgetDisplays>[1], 1_000);
  await forget(endMs + 90 * dayMs - 1);
  expect((await approvalOf(body.approval_id)).display).toEqual(display);
  expect(await forget(endMs + 90 * dayMs)).toBeGreaterThan(0);
  expect((await approvalOf(body.approval_id)).display).toBeNull();
});

describe('GET /approvals/:id?wait_ms=', () => {
  it('answers when a person has answered, long before the time is over', async () => {
    const { gateId, token } = await pair.setUp({ gate: rules });
    const { body } = await pair.check(0, gateId, token, order);
    const waiting = pair.api.call({ url: `/v1/approvals/${body.approval_id}?wait_ms=60000` });
    await pair.api.call({ url: `/v1/approvals/${body.approval_id}/deny`, body: { note: 'too dear' } });
    expect((await waiting).body).toMatchObject({ status: 'denied', note: 'too dear' });
  });

  it('answers what is pending at the end of its time, and at once without one', async () => {
    const { gateId, token } = await pair.setUp({ gate: rules });
    const { body } = await pair.check(0, gateId, token, order);
    for (const query of ['', '?wait_ms=0', '?wait_ms=50'])
      expect((await pair.api.call({ url: `/v1/approvals/${body.approval_id}${query}` })).body.status).toBe(
        'pending',
      );
  });

  it('lets an account wait a hundred times at once, and others beside it', async () => {
    const { key } = await pair.api.createAccount();
    const other = await pair.api.createAccount();
    const { approvalId } = await openAnApproval(pair.api, { key });
    const { approvalId: otherId } = await openAnApproval(pair.api, { key: other.key });
    const wait = (id: string, as: string, ms: number) =>
      pair.api.call({ url: `/v1/approvals/${id}?wait_ms=${ms}`, key: as });
    const waiting = Array.from({ length: 101 }, () => wait(approvalId, key, 60_000));
    const first = await Promise.race(waiting);
    expectError(first, 'overloaded');
    expect((await wait(otherId, other.key, 1)).body.status).toBe('pending');
    await pair.api.call({ url: `/v1/approvals/${approvalId}/deny`, body: {}, key });
    const statuses = (await Promise.all(waiting)).map(({ status }) => status);
    expect(statuses.filter((each) => each === 200)).toHaveLength(100);
    expect((await wait(approvalId, key, 60_000)).body.status).toBe('denied');
  });

  it('tells the expiry as expired', async () => {
    const { gateId, token } = await pair.setUp({ gate: { approvals: { above_usd: 50, expires_in_s: 1 } } });
    const { body } = await pair.check(0, gateId, token, order);
    const waiting = pair.api.call({ url: `/v1/approvals/${body.approval_id}?wait_ms=30000` });
    pair.api.advance(secondMs);
    expect((await waiting).body.status).toBe('expired');
  });

  it.each(['60001', '-1', 'x'])('400: refuses wait_ms=%s', async (waitMs) => {
    const { approvalId } = await openAnApproval(pair.api);
    const reply = await pair.api.call({ url: `/v1/approvals/${approvalId}?wait_ms=${waitMs}` });
    expectError(reply, 'invalid_request', 'wait_ms');
  });
});

describe('POST /approvals/:id/undo', () => {
  const limited = { ...rules, spend_limits: { daily_usd: 100 } };
  const asked = async () => {
    const made = await pair.setUp({ gate: limited });
    const { body } = await pair.check(0, made.gateId, made.token, order);
    return { ...made, approvalId: body.approval_id as string };
  };
  const say = (id: string, word: string, key?: string) =>
    pair.api.call({ url: `/v1/approvals/${id}/${word}`, body: {}, ...(key === undefined ? {} : { key }) });

  it.each(['approve', 'deny'])('takes back what was said by %s: pending as before', async (word) => {
    const { approvalId, gateId, token, passport } = await asked();
    const before = await approvalOf(approvalId);
    await say(approvalId, word);
    expect((await say(approvalId, 'undo')).body).toEqual(before);
    expect(await approvalOf(approvalId)).toEqual(before);
    const presented = await pair.check(0, gateId, token, { ...order, approval_id: approvalId });
    expect(presented.body).toMatchObject({ decision: 'SUSPEND', approval_id: approvalId });
    // Its money is held.
    const other = await pair.check(0, gateId, token, { ...order, amount: 30 });
    expect(other.body.reason).toBe('spend_limit_exceeded');
    expect((await say(approvalId, 'approve')).status).toBe(200);
    const used = await pair.check(0, gateId, token, { ...order, approval_id: approvalId });
    expect(used.body.decision).toBe('PERMIT');
    const resolutions = async () => {
      const url = `/v1/attestations?passport_id=${passport.passport_id}`;
      const { attestations } = (await pair.api.call({ url })).body;
      return attestations.map(({ resolution }: { resolution: string | null }) => resolution).reverse();
    };
    const said = word === 'approve' ? 'approved' : 'denied';
    await until(async () => (await resolutions()).length >= 5, { what: 'every record' });
    expect((await resolutions()).filter((each: string | null) => each !== null)).toEqual([
      said,
      'voided',
      'approved',
    ]);
  });

  it('frees the money of a denial at once, and cannot have it back once it is spent', async () => {
    const { approvalId, gateId, token } = await asked();
    await say(approvalId, 'deny');
    const other = { ...order, amount: 30, display: null };
    const spent = await pair.check(0, gateId, token, { ...other, idempotency_key: 'other' });
    expect(spent.body.decision).toBe('PERMIT');
    expectError(await say(approvalId, 'undo'), 'approval_already_resolved');
    expect((await approvalOf(approvalId)).status).toBe('denied');
    // What the refused undo wrote is gone with it: 70 dollars are left.
    await until(
      async () => (await pair.check(0, gateId, token, { ...order, amount: 70 })).body.decision === 'SUSPEND',
      { what: 'the rest of the money' },
    );
  });

  it('is refused when its time is over, and after the gate has changed', async () => {
    const { approvalId } = await asked();
    await say(approvalId, 'deny');
    pair.api.advance(5 * secondMs);
    expectError(await say(approvalId, 'undo'), 'approval_already_resolved');
    const changed = await asked();
    await say(changed.approvalId, 'deny');
    await pair.api.call({
      method: 'PUT',
      url: `/v1/gates/${changed.gateId}`,
      body: { constraints: { spend_limits: { daily_usd: 50 } } },
    });
    expectError(await say(changed.approvalId, 'undo'), 'approval_already_resolved');
  });

  it('of a denial is refused after midnight, where others may have spent what it freed', async () => {
    const { api } = pair;
    const midnightMs = Math.ceil(api.deps.clock.now() / dayMs) * dayMs;
    api.advance(midnightMs - api.deps.clock.now() - 3 * secondMs);
    const { gateId, passport } = await pair.setUp({ gate: limited });
    const { approvalId } = await openAnApproval(api, { gateId, passportId: passport.passport_id });
    await say(approvalId, 'deny');
    api.advance(midnightMs - api.deps.clock.now() + 1);
    expectError(await say(approvalId, 'undo'), 'approval_already_resolved');
    expect((await approvalOf(approvalId)).status).toBe('denied');
  });

  it('is refused where the same request comes to wait anew at the same moment', async () => {
    const { gateId, token } = await pair.setUp({ gate: rules });
    const first = (await pair.check(0, gateId, token, order)).body.approval_id;
    await say(first, 'deny');
    const other = connect({ url: pair.api.databaseUrl, connectionsMax: 2 });
    let undone: ReturnType<typeof say> | undefined;
    try {
      await other.begin(async (tx) => {
        await tx`
          INSERT INTO approvals SELECT again.* FROM approvals AS a, jsonb_populate_record(a, jsonb_build_object(
            'approval_id', ${pair.api.deps.random.newId('appr', pair.api.deps.clock.now())}::text,
            'status', 'pending', 'due_at_ms', a.expires_at_ms, 'resolved_at_ms', NULL, 'resolved_by', NULL)) AS again
          WHERE a.approval_id = ${first}`;
        undone = say(first, 'undo');
        const isWaiting = async () => {
          const rows = await other`
            SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
              AND query LIKE '%UPDATE approvals SET status%'`;
          return rows.length === 1;
        };
        await until(isWaiting, { what: 'the undo waits for the other request' });
      });
      if (undone === undefined) throw new Error('the undo was asked for');
      expectError(await undone, 'approval_already_resolved');
      expect((await approvalOf(first)).status).toBe('denied');
    } finally {
      await undone;
      await other.end();
    }
  });

  it('of many at once takes effect once, against a use at the same moment too', async () => {
    const { approvalId, gateId, token } = await asked();
    await say(approvalId, 'approve');
    const answers = await Promise.all([
      ...Array.from({ length: 5 }, async () => (await say(approvalId, 'undo')).status),
      pair.check(0, gateId, token, { ...order, approval_id: approvalId }).then(({ body }) => body.decision),
    ]);
    const undone = answers.filter((each) => each === 200).length;
    const { status } = await approvalOf(approvalId);
    if (answers.includes('PERMIT')) expect([undone, status]).toEqual([0, 'used']);
    else expect([undone, status]).toEqual([1, 'pending']);
  });
});
