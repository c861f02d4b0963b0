import { beforeAll, describe, expect, it } from 'vitest';
import { smtpMailer } from '../../control-plane/channels/mailer.ts';
import { inviteFirstOwner } from '../../control-plane/people/invite-first-owner.ts';
import { must } from '../../shared/errors/assert.ts';
import { dayMs } from '../../shared/model/time.ts';
import type { Role } from '../../shared/model/user.ts';
import { startMailServer } from '../support/peers/mail-server.ts';
import { logInAtProvider, startTestProvider } from '../support/peers/test-provider.ts';
import { cookiesOf, fromConsole, type LoggedIn, type Reply, startOwnApi } from '../support/service/api.ts';
import { askApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const mails = useStarted(startMailServer);
const provider = useStarted(startTestProvider);
const api = useApi(() =>
  startOwnApi({
    provider: provider.settings,
    mailer: smtpMailer({
      server: { host: '127.0.0.1', port: mails.port, user: null, password: null, tls: 'none' },
      from: 'trust@example.com',
    }),
  }),
);

type Person = Pick<LoggedIn, 'userId' | 'email' | 'headers'>;
/** A person with a session, or an API key. */
type By = Person | string;

const send = (by: By, method: string, url: string, body?: object): Promise<Reply> =>
  api.call({
    ...{ method, url },
    ...(typeof by === 'string' ? { key: by } : { key: null, headers: by.headers }),
    ...(body === undefined ? {} : { body }),
  });
let people = 0;
const invite = (by: By, body: { readonly role?: Role; readonly delivery?: string } = {}): Promise<Reply> => {
  people += 1;
  return send(by, 'POST', '/v1/users', { email: `person-${people}@example.com`, role: 'approver', ...body });
};
const tokenOf = (url: string): string => must(/#token=([\w-]{43})/.exec(url)?.[1], 'a link has a token');
/** The text of a mail, without the breaks of quoted-printable. */
const textOf = (source: string): string =>
  source
    .replace(/=\r?\n/g, '')
    .replace(/((?:=[0-9A-F]{2})+)/g, (hex) => Buffer.from(hex.replaceAll('=', ''), 'hex').toString());
const mailTo = (email: string): string =>
  textOf(must(mails.mails.findLast(({ to }) => to.includes(email))?.source, `a mail to ${email}`));

const open = (path: 'read' | 'accept', body: object): Promise<Reply> =>
  api.call({ url: `/v1/invitations/${path}`, key: null, headers: fromConsole, body });
async function accept({ body: { user, invitation_url: url } }: Reply): Promise<Person> {
  const token = tokenOf(url ?? mailTo(user.email));
  const reply = await open('accept', { token, name: 'Somebody', password: 'a password of length' });
  expect(reply.status).toBe(200);
  const { user_id: userId, email } = reply.body.user;
  return { userId, email, headers: { ...fromConsole, cookie: cookiesOf(reply) } };
}
const join = async (by: By, body: Parameters<typeof invite>[1] = {}) => accept(await invite(by, body));
const confirm = (by: By, { userId }: Person) => send(by, 'POST', `/v1/users/${userId}/confirm`);
const isConfirmed = async (key: string, { userId }: Person) =>
  (await send(key, 'GET', `/v1/users/${userId}`)).body.confirmed;

async function gateAt(key: string, approvers?: object): Promise<Reply> {
  const approvals = { above_usd: 10, ...(approvers === undefined ? {} : { approvers }) };
  return send(key, 'POST', '/v1/gates', { name: 'Orders', trust_level: 'L1', constraints: { approvals } });
}
async function ask(key: string, { body: gate }: Reply, askedBy?: string): Promise<string> {
  const { passport_id: passportId } = await api.issuePassport({}, key);
  const by = askedBy === undefined ? {} : { askedBy };
  return (await askApproval(api.deps, { gateId: gate.gate_id, passportId, ...by })).approvalId;
}
const answer = (by: By, id: string) => send(by, 'POST', `/v1/approvals/${id}/approve`);
const read = async (by: By, id: string) => (await send(by, 'GET', `/v1/approvals/${id}`)).body;
const waitsFor = async (by: By) =>
  (await send(by, 'GET', '/v1/approvals?waiting_for=me&limit=200')).body.items.map(
    (each: Reply['body']) => each.approval_id,
  );
async function expectNot(by: By, id: string, why: string): Promise<void> {
  const reply = await answer(by, id);
  expectError(reply, 'not_an_approver');
  const { you } = await read(by, id);
  expect(you).toMatchObject({ may_answer: false, why_not: why, message: reply.body.error.message });
  expect(await waitsFor(by)).not.toContain(id);
}

describe('whom a key invited into an account that has people', () => {
  it('logs in, and answers nothing until another person has confirmed them', async () => {
    const { key } = await api.createAccount();
    const owner = await join(key, { role: 'owner' });
    expect(await isConfirmed(key, owner)).toBe(true);
    const ann = await join(key, { role: 'admin' });
    const gates = [await gateAt(key), await gateAt(key, {})];
    const waiting = await Promise.all(gates.map((gate) => ask(key, gate)));
    for (const id of waiting) await expectNot(ann, id, 'unconfirmed');
    const standing = {
      ...{ gate_id: must(gates[0], 'a gate').body.gate_id, permission_key: 'orders:create' },
      ...{ passport_id: (await read(key, must(waiting[0], 'an approval'))).passport_id },
      ...{ each_usd: 20, total_usd: 20, expires_at: '2999-01-01T00:00:00Z' },
    };
    const ahead = { ...standing, expires_at: new Date(api.deps.clock.now() + dayMs).toISOString() };
    expectError(await send(ann, 'POST', '/v1/approvals/standing', ahead), 'not_an_approver');

    expectError(await confirm(key, ann), 'unauthorized');
    expectError(await confirm(ann, ann), 'insufficient_scope');
    // Nor by another one whom the key has invited, or by a person who does not manage people.
    expectError(await confirm(await join(key, { role: 'owner' }), ann), 'insufficient_scope');
    expectError(await confirm(await join(owner), ann), 'insufficient_scope');
    const invited = (await invite(key)).body.user;
    expectError(await confirm(owner, { ...ann, userId: invited.user_id }), 'user_state_conflict');

    expect((await confirm(owner, ann)).body).toMatchObject({ user_id: ann.userId, confirmed: true });
    expect((await confirm(owner, ann)).status).toBe(200);
    const { body: audit } = await send(key, 'GET', '/v1/audit?operation=confirmUser');
    expect(audit.entries).toMatchObject([{ target: ann.userId, actor: { type: 'user', id: owner.userId } }]);
    expect(new Set(await waitsFor(ann))).toEqual(new Set(waiting));
    for (const id of waiting) expect((await answer(ann, id)).body.status).toBe('approved');
  });

  it('includes those whom such a person invites, and whose link a key made anew', async () => {
    const { key } = await api.createAccount();
    const owner = await join(key, { role: 'owner' });
    const unconfirmed = await join(key, { role: 'owner' });
    expect(await isConfirmed(key, await join(unconfirmed))).toBe(false);
    const { body } = await invite(owner);
    const renewed = await send(key, 'POST', `/v1/users/${body.user.user_id}/invitation`);
    expect(await isConfirmed(key, await accept(renewed))).toBe(false);
    expect(await isConfirmed(key, await join(owner))).toBe(true);
  });

  it('is all but one of those who accept at once where nobody was', async () => {
    const { key } = await api.createAccount();
    const all = [await invite(key, { role: 'owner' }), await invite(key, { role: 'owner' })];
    const came = await Promise.all(all.map(accept));
    const confirmed = await Promise.all(came.map((each) => isConfirmed(key, each)));
    expect(confirmed.toSorted()).toEqual([false, true]);
    // A key cannot remove the one who could confirm, and be first once more.
    const first = must(came[confirmed.indexOf(true)], 'one is confirmed');
    expectError(await send(key, 'DELETE', `/v1/users/${first.userId}`), 'last_owner');
    expectError(await send(key, 'PATCH', `/v1/users/${first.userId}`, { role: 'auditor' }), 'last_owner');
  });
});

it('is answered by nobody who came after it was asked for, at whatever gate', async () => {
  const { key } = await api.createAccount();
  const owner = await join(key, { role: 'owner' });
  const gates = [await gateAt(key), await gateAt(key, {})];
  const asked = await Promise.all(gates.map((gate) => ask(key, gate)));
  api.advance(1);
  const late = await join(owner);
  for (const id of asked) await expectNot(late, id, 'accepted_later');
  for (const gate of gates) expect((await answer(late, await ask(key, gate))).body.status).toBe('approved');
});

describe('independent', () => {
  let key: string;
  let keyId: string;
  let ann: Person;
  /** By a mail that nobody else saw. */
  let ben: Person;
  /** By a link that Ann saw. */
  let cyd: Person;
  beforeAll(async () => {
    const account = await api.createAccount();
    key = account.key;
    keyId = (await send(key, 'GET', '/v1/api-keys')).body.items[0].key_id;
    ann = await join(key, { role: 'owner' });
    ben = await join(ann, { delivery: 'mail' });
    cyd = await join(ann);
  });
  const rule = { independent: true, not_requester: false };

  it('takes the links of one administrator, and of one key, for one person', async () => {
    const gate = await gateAt(key, { ...rule, count: 2 });
    expect(gate.body.constraints.approvals.approvers).toEqual({ ...rule, count: 2 });
    const id = await ask(key, gate);
    expect(await waitsFor(cyd)).toContain(id);
    expect((await answer(ann, id)).body).toMatchObject({ status: 'pending' });
    await expectNot(cyd, id, 'one_person');
    expectError(await send(cyd, 'POST', `/v1/approvals/${id}/deny`), 'not_an_approver');
    expect(await read(ben, id)).toMatchObject({ answers_missing: 1, you: { may_answer: true } });
    expect((await answer(ben, id)).body.status).toBe('approved');
    const { answers } = await read(key, id);
    expect(answers).toMatchObject([
      { user_id: ann.userId, invited_by: keyId },
      { user_id: ben.userId, invited_by: ann.userId, invited_by_name: 'Somebody' },
    ]);
    // Two of one key, by a key that it made.
    const makes = { name: 'makes people', scopes: ['admin:*'] };
    const made = (await send(key, 'POST', '/v1/api-keys', makes)).body.key;
    const dan = await join(made);
    await confirm(ann, dan);
    const other = await ask(key, gate);
    await answer(dan, other);
    await expectNot(ann, other, 'one_person');
    // By somebody in between, who was removed after that.
    const eve = await join(ann, { role: 'admin' });
    const fay = await join(eve);
    expect((await send(ann, 'DELETE', `/v1/users/${eve.userId}`)).status).toBe(200);
    const last = await ask(key, gate);
    await answer(ann, last);
    await expectNot(fay, last, 'one_person');
  });

  it('takes whoever asks with a key for those whose links the key could read', async () => {
    const gate = await gateAt(key, { independent: true });
    const id = await ask(key, gate, keyId);
    await expectNot(ann, id, 'requester');
    await expectNot(cyd, id, 'requester');
    expect(await waitsFor(ben)).toContain(id);
    const plain = await ask(key, await gateAt(key, {}), keyId);
    expect((await answer(cyd, plain)).body.status).toBe('approved');
    const ahead = {
      ...{ gate_id: gate.body.gate_id, owner: 'the data team', permission_key: 'orders:create' },
      ...{ each_usd: 20, total_usd: 20, expires_at: new Date(api.deps.clock.now() + dayMs).toISOString() },
    };
    expectError(await send(ben, 'POST', '/v1/approvals/standing', ahead), 'not_an_approver');
  });

  it('ends after a year, and never begins for a first login with the identity provider', async () => {
    const { body } = await invite(key, { role: 'admin' });
    const { user_id: userId, email } = body.user;
    const begun = await api.call({
      ...{ url: '/v1/session/oidc/begin', key: null, headers: fromConsole, body: {} },
    });
    const back = await logInAtProvider(begun.body.authorization_url, {
      ...{ sub: 'the subject of Eve', email, email_verified: true },
    });
    const headers = { ...fromConsole, cookie: cookiesOf(begun) };
    const reply = await api.call({ url: '/v1/session/oidc', key: null, headers, body: back });
    expect(reply.body.session.user).toMatchObject({ user_id: userId, status: 'active', came_by: 'oidc' });
    // The link that the key saw is no longer good for anything.
    expectError(await open('read', { token: tokenOf(body.invitation_url) }), 'invitation_not_found');
    const eve = { userId, email, headers: { ...fromConsole, cookie: cookiesOf(reply) } };
    await confirm(ann, eve);
    const gate = await gateAt(key, { ...rule, count: 2 });
    const id = await ask(key, gate);
    await answer(ann, id);
    expect((await answer(eve, id)).body.status).toBe('approved');

    const { key: other } = await api.createAccount();
    const first = await join(other, { role: 'owner' });
    await join(first);
    const at = 'constraints.approvals.approvers.count';
    expectError(await gateAt(other, { ...rule, count: 2 }), 'invalid_request', at);
    api.advance(366 * dayMs);
    expect((await gateAt(other, { ...rule, count: 2 })).status).toBe(201);
  });

  it('is refused where nobody could answer, and shown where it becomes so', async () => {
    const { key: other } = await api.createAccount();
    const owner = await join(other, { role: 'owner' });
    for (const wanted of [{ ...rule, count: 2 }, { independent: true }]) {
      await join(owner);
      const reply = await gateAt(other, wanted);
      expectError(reply, 'invalid_request', 'constraints.approvals.approvers.count');
      expect(reply.body.error.message).toMatch(/mail the links without showing them/);
    }
    const mailed = await join(owner, { delivery: 'mail' });
    expect((await gateAt(other, { ...rule, count: 2 })).status).toBe(201);
    expect((await gateAt(other, { independent: true })).status).toBe(201);
    const able = async () =>
      (await send(other, 'GET', '/v1/gates')).body.items.map((each: Reply['body']) => each.approvers.able);
    expect(await able()).toEqual([1, 2]);
    await send(owner, 'PATCH', `/v1/users/${mailed.userId}`, { status: 'disabled' });
    expect(await able()).toEqual([0, 1]);
  });
});

describe('an invitation', () => {
  it('says who invites, where to and as what, in its mail and to whoever holds the link', async () => {
    const { accountId, key } = await api.createAccount({ name: 'Nordwind' });
    const byKey = await invite(key, { role: 'owner' });
    expect(byKey.body).toMatchObject({
      invitation_url: expect.any(String),
      mail: { sent: true, error: null },
    });
    const owner = await accept(byKey);
    const { body } = await invite(owner, { delivery: 'mail', role: 'read_only' });
    expect(body).toMatchObject({ mail: { sent: true }, user: { came_by: 'mail', invited_by: owner.userId } });
    expect(body).not.toHaveProperty('invitation_url');
    const mail = mailTo(body.user.email);
    for (const part of ['Invited by: Somebody', 'Account: *Nordwind', 'As: *read only', 'Service: *127'])
      expect(mail).toMatch(new RegExp(part));
    const token = tokenOf(mail);
    const { email } = body.user;
    expect((await open('read', { token })).body).toEqual({
      ...{ account_name: 'Nordwind', role: 'read_only', email, invited_by_name: 'Somebody' },
      expires_at: body.expires_at,
    });
    expect((await open('read', { token: tokenOf(byKey.body.invitation_url) })).status).toBe(404);
    const [kept] = await api.deps.sql`
      SELECT string_agg(to_json(a)::text, '') AS text FROM audit_entries a WHERE account_id = ${accountId}`;
    expect(kept?.['text']).not.toContain(token);
  });

  it('reads as that of a first owner, of nobody', async () => {
    const token = tokenOf(String(await inviteFirstOwner(api.deps)));
    expect((await open('read', { token })).body).toMatchObject({
      ...{ role: 'owner', email: null, invited_by_name: null },
    });
  });

  it('is mailed only where that is wanted, and never alone without a mail server', async () => {
    const { key } = await api.createAccount();
    const answers: Reply[] = [await invite(key, { delivery: 'link' })];
    expect(answers[0]?.body).not.toHaveProperty('mail');
    const without = await startOwnApi();
    try {
      const wanted = { email: 'one@example.com', role: 'owner', delivery: 'mail' };
      expectError(await without.call({ url: '/v1/users', body: wanted }), 'invalid_request', 'delivery');
      const { body } = await without.call({ url: '/v1/users', body: { ...wanted, delivery: 'both' } });
      expect(body.invitation_url).toEqual(expect.any(String));
      expect(body).not.toHaveProperty('mail');
    } finally {
      await without.close();
    }
  });
});
