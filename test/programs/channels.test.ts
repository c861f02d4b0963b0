import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until, untilAnswer } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { startMailServer } from '../support/peers/mail-server.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { verified } from '../support/service/webhooks.ts';

/** Channels with programs as they run in production. */
let database: TestDatabase;
let world: Installation;
let mail: Awaited<ReturnType<typeof startMailServer>>;
let receiver: Receiver;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  mail = await startMailServer();
  receiver = await startReceiver();
  database = await testDatabase();
  world = await installation(await bundledPrograms(), { databaseUrl: database.url });
  env = {
    WEBHOOK_ALLOW_PRIVATE: '1',
    SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
    SMTP_FROM: 'approvals@example.com',
  };
}, 120_000);
afterAll(async () => {
  await world?.close();
  await receiver?.close();
  await mail?.close();
  await database?.drop();
});

/** A request that waits for a person. */
async function ask(gateId: string, passport: string, amount: number): Promise<string> {
  const request = { permission_key: 'orders:create', amount, idempotency_key: randomUUID() };
  const check = () => world.api('POST', `/gates/${gateId}/check`, { passport, request });
  const { body } = await untilAnswer(check, (reply) => !isPassing(reply), { what: 'an answer that stays' });
  expect(body.decision, JSON.stringify(body)).toBe('SUSPEND');
  return body.approval_id;
}

it('are told by another replica what one killed with a message under way had not noted as sent', async () => {
  const program: Running = await world.startControlPlane(env);
  const secrets: string[] = [];
  const add = async (body: { readonly kind: string; readonly target: string }) => {
    const made = await world.api('POST', '/channels', { name: body.kind, ...body });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    secrets.push(made.body.secret);
  };
  await add({ kind: 'webhook', target: receiver.url });
  await add({ kind: 'email', target: 'jane@example.com' });
  const gate = await world.api('POST', '/gates', {
    ...{ name: 'Orders', trust_level: 'L1', constraints: { approvals: { above_usd: 1 } } },
  });
  const passport = await world.api('POST', '/passports', {
    ...{ agent_id: 'buyer', permissions: ['orders:create'] },
  });
  // The webhook is sent and not answered: the replica does not know that it arrived.
  receiver.answer(() => undefined);
  const approval = await ask(gate.body.gate_id, passport.body.jwt, 5);
  await until(() => receiver.received.length === 1 && mail.mails.length === 1, { what: 'both messages' });
  const noted = async () => {
    const rows = await database.sql`SELECT FROM channel_messages WHERE status = 'sent'`;
    return rows.length === 1;
  };
  await until(noted, { what: 'the note of the mail' });
  const before = program.program.output();
  await program.stop('SIGKILL');
  receiver.answer((response) => response.writeHead(204).end());
  // As if the minute of its lock had passed.
  await database.sql`UPDATE channel_messages SET next_attempt_at_ms = 0 WHERE claimed_by IS NOT NULL`;
  await program.start();
  await until(() => receiver.received.length === 2, { what: 'the message of the second' });
  const told = receiver.received.map((each) => verified(each, secrets[0] ?? ''));
  expect(told.map(({ event, data }) => [event, data.approval_id])).toEqual([
    ['approval.requested', approval],
    ['approval.requested', approval],
  ]);
  expect(told[0]?.id).toBe(told[1]?.id);
  const resolved = await world.api('POST', `/approvals/${approval}/deny`, { note: 'Too dear' });
  expect(resolved.status).toBe(200);
  await until(() => receiver.received.length === 3 && mail.mails.length === 2, { what: 'the end' });
  // What was noted was sent once.
  expect(mail.mails.map(({ source }) => /^Subject: (.*)\r$/m.exec(source)?.[1])).toEqual([
    'Approval needed: orders:create',
    'Denied: orders:create',
  ]);
  expect(mail.mails[1]?.source).toMatch(/^In-Reply-To:\s+<appr_/m);
  for (const output of [before, program.program.output()]) {
    expect(output).toContain('listening');
    expect(output).not.toContain(secrets[0]);
    expect(output).not.toContain('jane@example.com');
  }
}, 120_000);
