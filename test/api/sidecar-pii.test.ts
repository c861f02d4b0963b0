import { describe, expect, it } from 'vitest';
import { webhookEvents } from '../../shared/model/webhook.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { until } from '../support/base/until.ts';
import type { Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type SidecarPair, startSidecarPair } from '../support/service/sidecar-pair.ts';
import { useStarted } from '../support/service/use-api.ts';
import { subscribe } from '../support/service/webhooks.ts';

const email = 'jane.roe@example.com';
const card = '4111 1111 1111 1111';
const order = { permission_key: 'orders:create', amount: 1 };
const personal = {
  ...order,
  contact: { mail: `write to ${email}`, 'x/y': [card] },
  note: 'leave at the door',
};
const findings = [
  { pointer: '/contact/mail', type: 'email' },
  { pointer: '/contact/x~1y/0', type: 'payment_card' },
];

describe('a gate with PII controls', () => {
  /** Every line that control plane and sidecars have logged. */
  const lines: string[] = [];
  const line = (fields: object, message: string) =>
    void lines.push(
      `${message} ${JSON.stringify(fields, (_key, value) => (value instanceof Error ? String(value.stack) : value))}`,
    );
  const logger: Logger = { debug: line, info: line, warn: line, error: line, child: () => logger };
  const pair = useStarted(() => startSidecarPair({ logger }));

  const check: SidecarPair['check'] = (...asked) => pair.check(...asked);

  it('suspends with its findings, which go into the approval and not their values', async () => {
    const gate = { pii_controls: { mode: 'redact' }, approvals: { above_usd: 0.5 } };
    const { gateId, token } = await pair.setUp({ gate });
    const { body } = await check(0, gateId, token, personal);
    expect(body).toMatchObject({ decision: 'SUSPEND', pii: findings });
    expect('request_redacted' in body).toBe(false);
    await pair.api.call({ url: `/v1/approvals/${body.approval_id}/approve`, body: {} });
    const used = await check(1, gateId, token, { ...personal, approval_id: body.approval_id });
    expect(used.body).toMatchObject({ decision: 'PERMIT', redactions: findings });
  });

  it.each(['a sidecar', 'the control plane'])(
    'leaves a permission that is personal data itself out of record, approval and events: %s',
    async (program) => {
      const number = '4111111111111111';
      const granted = `pay:${number}`;
      const hook = await subscribe(pair.api, { url: null, events: [...webhookEvents] });
      const passport = { permissions: ['orders:create', granted] };
      const gate = { pii_controls: { mode: 'log_only' }, approvals: { permissions: [granted] } };
      const { gateId, token } = await pair.setUp({ gate, passport });
      const ask = async (request: object, jwt = token): Promise<Reply['body']> => {
        const url = `/v1/gates/${gateId}/check`;
        const reply =
          program === 'a sidecar'
            ? await check(0, gateId, jwt, request)
            : await pair.api.call({ url, body: { passport: jwt, request } });
        return reply.body;
      };
      const records: Reply['body'][] = [];
      const recordOf = async (body: Reply['body']) =>
        records.push(await pair.attestation(body.attestation_id));

      const refused = await ask({ requested_action: `ask:${number}` });
      expect(refused.reason).toBe('permission_not_granted');
      await recordOf(refused);
      await recordOf(await ask({ action: granted }, 'no.pass.port'));
      const waiting = await ask({ permission_key: granted });
      expect(waiting.decision).toBe('SUSPEND');
      const approval = await pair.api.call({ url: `/v1/approvals/${waiting.approval_id}/approve`, body: {} });
      await recordOf(await ask({ permission_key: granted, approval_id: waiting.approval_id }));
      await recordOf(await ask(order));

      expect(records.map(({ permission_key }) => permission_key)).toEqual([
        null,
        null,
        null,
        'orders:create',
      ]);
      expect(approval.body.permission_key).toBeNull();
      const told = await hook.deliveries();
      expect(told.map(({ payload }) => payload.event)).toContain('approval.resolved');
      const said = JSON.stringify([records, approval.body, told, lines]);
      expect(said.includes(number)).toBe(false);
    },
  );

  it('leaves nothing personal in a log, a record, a list of approvals or an error', async () => {
    const { gateId, token } = await pair.setUp({ gate: { pii_controls: { mode: 'log_only' } } });
    const errors = [
      await check(0, gateId, token, { ...personal, amount: -1 }),
      await check(1, gateId, token, { ...personal, permission_key: email }),
      await check(0, gateId, token, { ...personal, domain: email }),
      await check(0, null, token, { ...personal, gate_id: email }),
    ];
    expectError(errors[0] as Reply, 'invalid_request', 'request.amount');
    for (const { status } of errors) expect(status).toBeGreaterThanOrEqual(400);
    await check(0, gateId, token, personal);
    const [sidecar] = pair.sidecars;
    sidecar.link.cut();
    await sidecar.check(gateId, token, { ...personal, idempotency_key: 'never-settled' });
    sidecar.link.restore();
    await until(
      async () => {
        const { body } = await pair.api.call({ url: `/v1/attestations?gate_id=${gateId}` });
        return body.attestations.length >= 1;
      },
      { what: 'the records' },
    );
    const exported = await pair.api.call({ url: '/v1/attestations/export?format=jsonl' });
    // What an account has written into policies and permissions is behind the records, as it wrote it.
    const [records] = String(exported.body).split('\n{"policy":');
    const approvals = await pair.api.call({ url: '/v1/approvals?limit=200' });
    const said = [...lines, ...errors.map(({ body }) => body), records, approvals.body]
      .map((each) => (typeof each === 'string' ? each : JSON.stringify(each)))
      .join('\n');
    expect(said).toContain(gateId);
    for (const secret of [email, 'jane.roe', card, '4111111111111111']) expect(said).not.toContain(secret);
  });
});
