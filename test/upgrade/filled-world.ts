import { must } from '../../shared/errors/assert.ts';
import { call, type Reply } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { authenticator } from '../support/data/authenticator.ts';
import type { Receiver } from '../support/peers/receiver.ts';
import { logInAtProvider } from '../support/peers/test-provider.ts';
import type { Installation, Running } from '../support/programs/installation.ts';
import type { fillPast } from './filled-history.ts';
import { fillMoney } from './filled-money.ts';
import { fillTrust } from './filled-trust.ts';
import { order, useWorld } from './use-world.ts';

/** Where clients reach the control plane, before and after the upgrade: tokens for `/mcp` name it. */
export const publicUrl = 'https://trust.example.com';

/** What clients of the version before knew, besides its database. */
export type FilledWorld = Awaited<ReturnType<typeof fillWorld>>;

const longLived = { expires_in_days: 3_650 };

/**
 * Uses every part of a running installation through its public interfaces alone: afterwards every table has
 * rows. Sidecar and receiver are those of the caller; the sidecar is
 * killed in the middle of its work, as the last thing that happens.
 */
export async function fillWorld(
  world: Installation,
  programs: {
    readonly controlPlane: Running;
    readonly sidecar: Running;
    readonly receiver: Receiver;
    readonly past: Awaited<ReturnType<typeof fillPast>>;
    readonly recoveredAtMs: number;
  },
) {
  const { controlPlane, sidecar, receiver, past, recoveredAtMs } = programs;
  const { create, gate, check, expectDecision } = useWorld(world);

  const tenant = await create('/accounts', { name: 'Tenant', plan: 'pro' });
  const otherKey: string = tenant.api_key.key;
  const { readable: ofMoney, money } = await fillMoney(world, programs);
  const { readable: ofTrust, trust } = await fillTrust(world, { ...programs, otherKey });
  const webhook = await create('/webhooks', {
    url: receiver.url,
    events: ['gate.created', 'passport.revoked', 'approval.requested', 'approval.resolved'],
  });
  // Counted by the limits of its plan.
  await call(`${controlPlane.origin}/v1/gates`, { key: otherKey });
  await create('/channels', { name: 'pager', kind: 'webhook', target: receiver.url });

  const reader = await create('/api-keys', { name: 'reader', scopes: ['gates:read', 'passports:read'] });
  const rolling = await create('/api-keys', { name: 'rolling', scopes: ['gates:read'] });
  const rolled = await create(`/api-keys/${rolling.key_id}/roll`, { overlap_s: 3_600 });
  const deleted = await create('/api-keys', { name: 'deleted', scopes: ['gates:read'] });
  await world.api('DELETE', `/api-keys/${deleted.key_id}`);

  const issuer = await create('/issuers', { name: 'Acme', domain: 'acme.example' });
  const passportBody = {
    agent_id: 'buyer',
    permissions: ['orders:create'],
    issuer_id: issuer.issuer_id,
    ...longLived,
  };
  const idempotencyKey = 'the-buyer-of-acme';
  const first = await call(`${controlPlane.origin}/v1/passports`, {
    key: world.adminKey,
    body: passportBody,
    headers: { 'idempotency-key': idempotencyKey },
  });
  const buyer = first.body;
  const machine = await create('/passports', {
    subject: { agent_id: 'machine', agent_name: 'Machine' },
    permissions: ['orders:create'],
    issuer_id: issuer.issuer_id,
    expires_at: null,
  });
  const { body: unattended } = await call(`${controlPlane.origin}/api/passports`, {
    key: world.adminKey,
    body: { agent_type: 'crawler', permissions: ['orders:create'] },
  });
  const revoked = await create('/passports', { ...passportBody, agent_id: 'revoked' });
  await create(`/passports/${revoked.passport_id}/revoke`, { reason: 'key_compromised' });
  const suspended = await create('/passports', { ...passportBody, agent_id: 'suspended' });
  await create(`/passports/${suspended.passport_id}/suspend`, {});

  const people = await fillPeople(world, controlPlane);
  const template = await create('/templates', {
    name: 'careful',
    trust_level: 'L1',
    constraints: { rate_limits: { requests_per_day: 1_000 } },
  });
  const open = await gate('open');
  const fromTemplate = await gate('from template', { template_id: template.template_id });
  const limited = await gate('limited', {
    constraints: { rate_limits: { requests_per_day: 3 }, spend_limits: { daily_usd: 100 } },
  });
  const keyed = await gate('keyed', { constraints: { rate_limits: { requests_per_day: 5 } } });
  const approving = await gate('approving', {
    constraints: { approvals: { above_usd: 10, expires_in_s: 86_400 }, spend_limits: { daily_usd: 100 } },
  });
  const offering = await gate('offering');
  const permissions = [
    { key: 'orders:create', category: 'commerce', pricing: { model: 'per_call', price_cents: 25 } },
  ];
  await create(`/gates/${offering.gate_id}/catalog`, { permissions: [{ key: 'orders:create' }] });
  await create(`/gates/${offering.gate_id}/catalog`, { permissions });
  const removed = await gate('removed');
  await world.api('DELETE', `/gates/${removed.gate_id}`);

  // From here on the endpoint is down: what happens next waits for it.
  await until(() => receiver.received.length >= 8, { what: 'the events of a passport and seven gates' });
  receiver.answer((response) => void response.writeHead(500).end('busy'));

  const attestations: string[] = [];
  const note = (answer: Reply['body']): void => void attestations.push(answer.attestation_id);
  await until(async () => (await check(sidecar, open.gate_id, machine, order)).decision === 'PERMIT', {
    what: 'a sidecar that has heard of everything',
  });
  for (const at of [sidecar, controlPlane]) {
    note(await expectDecision('PERMIT', check(at, open.gate_id, buyer, order)));
    note(await expectDecision('PERMIT', check(at, fromTemplate.gate_id, machine, order)));
    note(await expectDecision('BLOCK', check(at, open.gate_id, revoked, order)));
    note(await expectDecision('BLOCK', check(at, open.gate_id, { jwt: 'not.a.token' }, order)));
    note(await expectDecision('PERMIT', check(at, offering.gate_id, buyer, order)));
  }
  for (let i = 0; i < 2; i++) {
    const request = { ...order, amount: 12.5 };
    note(await expectDecision('PERMIT', check(controlPlane, limited.gate_id, buyer, request)));
  }
  const keyedRequest = { ...order, idempotency_key: 'order-4711' };
  const keyedPermit = await expectDecision('PERMIT', check(sidecar, keyed.gate_id, buyer, keyedRequest));
  note(keyedPermit);

  const ask = (amount: number): Promise<Reply['body']> =>
    expectDecision('SUSPEND', check(sidecar, approving.gate_id, buyer, { ...order, amount }));
  const pending = await ask(11);
  const approved = await ask(12);
  await create(`/approvals/${approved.approval_id}/approve`, { note: 'by a person' });
  const used = await ask(13);
  await create(`/approvals/${used.approval_id}/approve`, {});
  const usedRequest = { ...order, amount: 13, approval_id: used.approval_id };
  note(await expectDecision('PERMIT', check(sidecar, approving.gate_id, buyer, usedRequest)));
  const denied = await ask(14);
  const headers = { ...fromConsole, cookie: people.cookie };
  const url = `${controlPlane.origin}/v1/approvals/${denied.approval_id}/deny`;
  const byPerson = await call(url, { body: {}, headers });
  if (byPerson.status !== 200) throw new Error(`deny: ${JSON.stringify(byPerson.body)}`);

  const tokenReply = await fetch(`${controlPlane.origin}/oauth/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${reader.key_id}:${reader.key}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  });
  const { access_token: accessToken } = (await tokenReply.json()) as { access_token: string };

  await until(
    async () => {
      const known = await Promise.all(
        attestations.map(async (id) => (await world.api('GET', `/attestations/${id}`)).status === 200),
      );
      const deliveries = await world.api('GET', `/webhooks/${webhook.webhook_id}/deliveries?status=pending`);
      const failed = deliveries.body.items.filter(
        ({ attempts }: { attempts: unknown[] }) => attempts.length > 0,
      );
      return known.every(Boolean) && failed.length >= 5;
    },
    { what: 'all records at the control plane, and five deliveries that wait for their second attempt' },
  );

  const readable = [
    '/accounts',
    '/api-keys',
    '/issuers',
    '/templates',
    '/gates',
    ...[open, fromTemplate, limited, keyed, approving, offering].map(({ gate_id }) => `/gates/${gate_id}`),
    `/gates/${offering.gate_id}/catalog`,
    `/gates/${offering.gate_id}/catalog?version=1`,
    '/discover?capability=orders:create',
    '/discover?capability=commerce',
    '/passports',
    ...[buyer, machine, unattended, revoked, suspended].flatMap(({ passport_id }) => [
      `/passports/${passport_id}`,
      `/passports/${passport_id}/verify`,
    ]),
    '/attestations',
    ...attestations.map((id) => `/attestations/${id}`),
    '/approvals',
    ...[pending, approved, used, denied].map(({ approval_id }) => `/approvals/${approval_id}`),
    '/attestations/retention',
    '/users',
    '/channels',
    '/webhooks',
    `/webhooks/${webhook.webhook_id}/deliveries?status=succeeded`,
    ...ofMoney,
    ...ofTrust,
  ];
  const answers: Record<string, Reply['body']> = {};
  for (const path of readable) {
    const { status, body } = await world.api('GET', path);
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${JSON.stringify(body)}`);
    answers[path] = { status, body };
  }
  const { body: jwks } = await call(`${controlPlane.origin}/.well-known/jwks.json`);

  // A permit and a crash: units that this sidecar holds are on lease in the dump.
  await expectDecision('PERMIT', check(sidecar, keyed.gate_id, machine, order));
  await sidecar.stop('SIGKILL');

  return {
    answers,
    jwks,
    attestations,
    webhook: { id: webhook.webhook_id as string, secret: webhook.secret as string },
    people,
    past: { gateId: past.gateId, passport: past.passport.jwt as string, recoveredAtMs },
    money,
    trust,
    tenantKey: otherKey,
    keys: {
      reader: reader.key as string,
      beforeRoll: rolling.key as string,
      rolled: rolled.key as string,
      deleted: deleted.key as string,
    },
    accessToken: must(accessToken, 'a key gets a token'),
    idempotent: { key: idempotencyKey, body: passportBody, passportId: buyer.passport_id as string },
    passports: {
      buyer: buyer.jwt as string,
      machine: machine.jwt as string,
      revoked: revoked.jwt as string,
      suspended: suspended.jwt as string,
    },
    gates: {
      open: open.gate_id as string,
      limited: limited.gate_id as string,
      keyed: keyed.gate_id as string,
      approving: approving.gate_id as string,
      offering: offering.gate_id as string,
      removed: removed.gate_id as string,
    },
    keyed: { request: keyedRequest, attestationId: keyedPermit.attestation_id as string },
    approvals: {
      pending: pending.approval_id as string,
      approved: approved.approval_id as string,
      used: used.approval_id as string,
    },
  };
}

/** What a browser in the console sends. */
export const fromConsole = { 'x-agent-trust-console': '1', 'sec-fetch-site': 'same-origin' };

/** People of the account who have logged in: by password, by passkey, and at the identity provider. */
async function fillPeople(world: Installation, { origin }: Running) {
  const post = async (path: string, body: object, cookie = '') => {
    const reply = await call(`${origin}${path}`, { body, headers: { ...fromConsole, cookie } });
    if (reply.status >= 300) throw new Error(`POST ${path}: ${reply.status} ${JSON.stringify(reply.body)}`);
    const cookies = reply.headers.getSetCookie().map((each) => each.split(';', 1)[0]);
    return { body: reply.body, cookie: [...(cookie === '' ? [] : [cookie]), ...cookies].join('; ') };
  };
  const password = 'the password of a person';
  const invite = async (email: string) => {
    const { body: invited } = await world.api('POST', '/users', { email, role: 'owner' });
    const token = new URL(invited.invitation_url).hash.slice('#token='.length);
    return (await post('/v1/invitations/accept', { token, name: 'Somebody', password })).cookie;
  };
  const [withPassword, withPasskey, ofProvider] = ['ann@example.com', 'ben@example.com', 'eve@example.com'];
  await invite(withPassword);
  const session = await post('/v1/session', { email: withPassword, password });

  const passkey = authenticator(publicUrl);
  const adding = await post('/v1/users/me/passkeys/begin', { password }, await invite(withPasskey));
  const created = { name: 'Laptop', response: passkey.create(adding.body.options) };
  await post('/v1/users/me/passkeys', created, adding.cookie);
  const begun = await post('/v1/session/passkey/begin', {});
  await post('/v1/session/passkey', { response: passkey.get(begun.body.options) }, begun.cookie);

  await invite(ofProvider);
  const away = await post('/v1/session/oidc/begin', {});
  const person = { sub: 'eve', email: ofProvider, email_verified: true };
  await post('/v1/session/oidc', await logInAtProvider(away.body.authorization_url, person), away.cookie);

  const redirects = { redirect_uris: ['http://127.0.0.1:7777/callback'] };
  await post('/oauth/register', { client_name: 'A client', ...redirects });
  return { email: withPassword, password, cookie: session.cookie };
}
