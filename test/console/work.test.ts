import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { historyOf } from '../../control-plane/history/history.ts';
import { dayMs } from '../../shared/model/time.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { startReceiver } from '../support/peers/receiver.ts';
import {
  copiedBy,
  looksGood,
  screenshot,
  sharedConsole,
  violations,
  visit,
} from '../support/programs/console.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { deliverer } from '../support/service/webhooks.ts';

const world = sharedConsole({ outbound: { allowPrivate: true } });
let sidecar: TestSidecar;
let page: Page;

beforeAll(async () => {
  sidecar = await startTestSidecar({ api: world.api });
  page = await world.open({ role: 'owner' });
});
afterAll(async () => {
  await sidecar?.close();
  sidecar?.removeFolder();
});

const button = (name: string | RegExp) => page.getByRole('button', { name });
const inDialog = (name: string) => page.getByRole('dialog').getByRole('button', { name });
const field = (label: string | RegExp) => page.getByLabel(label);
/** Beside the filter of the list behind it. */
const nameInDialog = () => page.getByRole('dialog').getByRole('textbox', { name: 'Name', exact: true });
const says = (text: string | RegExp) => page.getByText(text).first().waitFor();
const request = { permission_key: 'orders:create', amount: 30 };

/** Asks until a person is asked: a busy machine may first answer that it does not know yet. */
async function suspend(gate: string, token: string, amount: number): Promise<string> {
  const ask = () => sidecar.check(gate, token, { ...request, amount });
  const { body } = await untilAnswer(ask, (reply) => reply.body.decision === 'SUSPEND', {
    what: 'a SUSPEND',
  });
  return body.approval_id;
}

/** A passport issued on the page, as a person does it. Returns what is shown once. */
async function issueOnPage(agentId: string): Promise<{ readonly token: string; readonly id: string }> {
  await visit(page, '/passports?new=1');
  await field('Agent id').fill(agentId);
  await field('Permissions').fill('orders:create');
  await inDialog('Issue').click();
  await says('Copy both now');
  const [token = '', privateKey = ''] = await page.locator('dialog .secret code').allInnerTexts();
  expect(token.split('.')).toHaveLength(3);
  expect(privateKey).toMatch(/^ed25519_private:/);
  const id = await page.locator('dialog code', { hasText: /^pass_/ }).innerText();
  return { token, id };
}

describe('tools of an MCP server on the page', () => {
  it('are accepted with what is shown, and ask again where the server changed them meanwhile', async () => {
    const { api } = world;
    const { gate_id } = await api.createGate();
    const report = async (description: string) => {
      const tools = [{ definition: JSON.stringify({ description, name: 'transfer' }) }];
      const body = { gate_id, upstream: 'stdio:bank', tools, is_whole: true };
      return (await api.call({ url: '/v1/mcp-pins', body })).body.pins[0];
    };
    await report('Moves money.');
    const { pin_id } = await report('Moves money to Eve.\u200b');
    await visit(page, '/mcp-pins');
    await page.getByRole('link', { name: 'transfer' }).click();
    await says('Its definition is another one');
    const differences = page.getByRole('list', { name: 'Differences' });
    expect(await differences.innerText()).toMatch(/\/description.*Moves money\..*to Eve\.\\u200b/s);
    expect(await violations(page)).toEqual([]);

    await report('Moves all money to Eve.');
    await differences.getByText('all money').waitFor();
    await button('Reject').click();
    await says('Rejected: transfer stays refused');
    await report('Moves money, with a fee.');
    await differences.getByText('with a fee').waitFor();
    await button('Accept the tool as it is now').click();
    await says('Accepted: transfer may be called.');
    expect((await api.call({ url: `/v1/mcp-pins/${pin_id}` })).body).toMatchObject({
      status: 'pinned',
      definition: '{"description":"Moves money, with a fee.","name":"transfer"}',
    });
  });
});

describe('holds on the page', () => {
  it('are settled for what they came to, and released', async () => {
    const { api } = world;
    const { gate_id: gate } = await api.createGate({ constraints: { spend_limits: { daily_usd: 100 } } });
    const { jwt } = await api.issuePassport({ agent_id: 'holder', permissions: ['orders:create'] });
    const hold = async (amount: number) => {
      const body = { passport: jwt, request: { permission_key: 'orders:create', amount, hold: true } };
      return (await api.call({ url: `/v1/gates/${gate}/check`, body })).body.attestation_id;
    };
    const [settled, released] = [await hold(12), await hold(34)];
    await visit(page, `/holds?gate_id=${gate}`);
    await button('Settle $12.00').click();
    await field('What it came to, in USD').fill('12.5');
    await inDialog('Settle').click();
    await says(/is more than the 12.* that are held/);
    await field('What it came to, in USD').fill('4.25');
    expect(await violations(page)).toEqual([]);
    await inDialog('Settle').click();
    await says('Settled: it counts $4.25.');
    await button('Release $34.00').click();
    await inDialog('Release').click();
    await says('Released: all of it is free.');
    await page.getByText('None', { exact: true }).waitFor();
    const outcomeOf = async (id: string) => (await api.call({ url: `/v1/attestations/${id}/outcome` })).body;
    expect(await outcomeOf(settled)).toMatchObject({ outcome: 'served', counts_usd: 4.25 });
    expect(await outcomeOf(released)).toMatchObject({ outcome: 'failed', counts_usd: 0 });
    await field('Show').selectOption('settled');
    await says('counts $4.25');
  });

  it('are for looking at where the role may not report', async () => {
    const reader = await world.open({ role: 'auditor' });
    await visit(reader, '/holds');
    await reader.getByRole('heading', { name: 'Holds' }).waitFor();
    await reader
      .getByRole('link', { name: /\$|Look at the records/ })
      .first()
      .waitFor();
    expect(await reader.getByRole('button', { name: /^(Settle|Release)/ }).count()).toBe(0);
  });
});

describe('passports on the page', () => {
  it('are issued with the key shown once, and not before it is kept', async () => {
    const { token } = await issueOnPage('shown-once');
    await page.keyboard.press('Escape');
    await says('Copy both now');
    expect(await button('Done').isDisabled()).toBe(true);
    const copy = page.getByRole('button', { name: 'Copy Passport token' });
    expect(await copiedBy(page, copy)).toBe(token);
    await field('I have stored them').check();
    await button('Done').click();
    const isShown = async () => (await page.content()).includes(token.slice(0, 40));
    await until(async () => !(await isShown()), { what: 'a page without the token' });
    await page.reload();
    await page.getByRole('link', { name: 'shown-once' }).first().waitFor();
    expect(await page.content()).not.toContain('ed25519_private');
  });

  it('are suspended, reactivated, and revoked until every sidecar knows', async () => {
    const { api } = world;
    const { gate_id: gate } = await api.createGate();
    const { passport_id: id, jwt } = await api.issuePassport({ agent_id: 'to-revoke' });
    await sidecar.caughtUp();
    await visit(page, `/passports/${id}`);
    await button('Suspend').click();
    await button('Reactivate').click();
    await button('Revoke').click();
    await field('Reason').fill('laptop stolen');
    await button('Revoke for ever').click();
    await says('The one connected sidecar knows');
    const { body } = await sidecar.check(gate, jwt, request);
    expect(body.reason).toBe('passport_revoked');
    await says('laptop stolen');
    expect(await violations(page)).toEqual([]);
  });
});

describe('the inbox of approvals', () => {
  it('shows a request on a phone while the agent waits, and lets it go on', async () => {
    const { api } = world;
    const { gate_id: gate } = await api.createGate({
      constraints: { approvals: { above_usd: 20 }, spend_limits: { daily_usd: 100 } },
    });
    const { jwt } = await api.issuePassport({ agent_id: 'waiting-agent' });
    await sidecar.caughtUp();
    const phone = await world.open({ isPhone: true, role: 'approver' });
    await visit(phone, '/approvals');
    await phone.getByText('Nothing waits for you').waitFor();
    const approval_id = await suspend(gate, jwt, 30);
    // Nothing is pressed: the page follows by itself.
    const card = phone.getByRole('article', { name: 'Request of waiting-agent' });
    await card.getByText(/left after this, of one limit/).click();
    await card.getByText(/left of \$100\.00/).waitFor();
    await phone.getByLabel('Note').fill('known supplier');
    await phone.getByRole('button', { name: 'Approve $30.00' }).click();
    await phone.getByText('Approved: waiting-agent may go on.').waitFor();
    await phone.getByText('Nothing waits for you').waitFor();
    const again = () => sidecar.check(gate, jwt, { ...request, approval_id });
    const answer = await untilAnswer(again, ({ body }) => body.decision === 'PERMIT', { what: 'a permit' });
    expect(answer.body.attestation_id).toMatch(/^att_/);
    await visit(phone, `/approvals/${approval_id}`);
    await phone.getByRole('region', { name: 'Answers' }).getByText('known supplier').waitFor();
    await phone.context().close();
  });

  it('shows what is asked, and takes an answer back', async () => {
    const { api } = world;
    const { gate_id: gate } = await api.createGate({ constraints: { approvals: { above_usd: 20 } } });
    const { jwt } = await api.issuePassport({ agent_id: 'explaining-agent' });
    await sidecar.caughtUp();
    const display = {
      title: 'Pay invoice 4711 <b>now</b>',
      lines: [
        { label: 'Supplier', value: 'Nordwind' },
        { label: 'Supplier', value: 'x'.repeat(300) },
      ],
      url: 'https://shop.example.com/invoices/4711',
    };
    const phone = await world.open({ isPhone: true, role: 'approver' });
    const { body } = await sidecar.check(gate, jwt, { ...request, amount: 30, display });
    const { approval_url } = (await api.call({ url: `/v1/approvals/${body.approval_id}` })).body;
    await visit(phone, new URL(approval_url).pathname.replace('/console', ''));
    const asked = phone.getByRole('region', { name: 'What is asked' });
    await asked.getByText('Pay invoice 4711 <b>now</b>').waitFor();
    await asked.getByText('Nordwind').waitFor();
    const link = asked.getByRole('link', { name: display.url });
    expect(await link.getAttribute('rel')).toContain('noopener');
    // Nothing is cut off at the side of a phone.
    expect(
      await phone.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    ).toBeLessThanOrEqual(0);
    await phone.getByRole('button', { name: 'Deny' }).click();
    await phone.getByRole('button', { name: 'Undo' }).click();
    await phone.getByText('Taken back.').waitFor();
    await phone.getByRole('button', { name: 'Approve $30.00' }).click();
    await phone.getByText('Approved: explaining-agent may go on.').waitFor();
    expect((await api.call({ url: `/v1/approvals/${body.approval_id}` })).body.status).toBe('approved');
    await phone.context().close();
  });

  it('approves the next ones too, shows what is left of them, and ends that', async () => {
    const { api } = world;
    const { gate_id: gate } = await api.createGate({ constraints: { approvals: { above_usd: 20 } } });
    const { jwt } = await api.issuePassport({ agent_id: 'trusted-agent' });
    await sidecar.caughtUp();
    const phone = await world.open({ isPhone: true, role: 'approver' });
    const waiting = await suspend(gate, jwt, 30);
    await visit(phone, `/approvals/${waiting}`);
    await phone.getByRole('button', { name: 'Also the next ones like it' }).click();
    const dialog = phone.getByRole('dialog');
    await dialog.getByLabel('Up to, in USD each').fill('40');
    await dialog.getByLabel('In all, in USD').fill('39');
    await dialog.getByRole('button', { name: 'Approve ahead' }).click();
    // The fault stands at its field.
    await dialog.getByText('total_usd must be at least each_usd.').waitFor();
    await dialog.getByLabel('In all, in USD').fill('100');
    await dialog.getByRole('button', { name: 'Approve ahead' }).click();
    await phone.getByText('Approved: trusted-agent may go on.').waitFor();
    await sidecar.caughtUp();
    const next = () => sidecar.check(gate, jwt, { ...request, amount: 40 });
    await untilAnswer(next, ({ body }) => body.decision === 'PERMIT', { what: 'a permit' });
    await visit(phone, '/approvals/standing');
    await phone.getByText('$60.00 of $100.00').waitFor();
    expect(
      await phone.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
    ).toBeLessThanOrEqual(0);
    await phone.getByRole('button', { name: 'End the standing approval of trusted-agent' }).click();
    await phone.getByRole('dialog').getByRole('button', { name: 'End' }).click();
    await phone.getByText('Ended: trusted-agent waits for a person again.').waitFor();
    await sidecar.caughtUp();
    await suspend(gate, jwt, 35);
    expect(await violations(phone)).toEqual([]);
    await phone.context().close();
  });

  it('is approved ahead by a form, for an agent and for all agents of an owner, and ended', async () => {
    const { api } = world;
    const { gate_id: gate } = await api.createGate({ constraints: { approvals: { above_usd: 20 } } });
    const known = await api.issuePassport({ agent_id: 'known-agent' });
    const { jwt } = await api.issuePassport({ owner: 'Purchasing' });
    await visit(page, '/approvals/standing');
    const dialog = page.getByRole('dialog');
    const approveAhead = async (whose: string, who: string) => {
      await button('Approve ahead').click();
      await dialog.getByLabel('Gate').fill(gate);
      if (whose === 'Owner') await dialog.getByLabel('For', { exact: true }).selectOption('owner');
      await dialog.getByLabel(whose).fill(who);
      await dialog.getByLabel('Permission').fill('orders:create');
      await dialog.getByLabel('Up to, in USD each').fill('25');
      await dialog.getByLabel('In all, in USD').fill('50');
      expect(await violations(page)).toEqual([]);
      await dialog.getByRole('button', { name: 'Approve ahead' }).click();
    };
    await approveAhead('Passport', known.passport_id);
    await page.getByRole('link', { name: 'known-agent' }).waitFor();
    await approveAhead('Owner', 'Purchasing');
    await page.getByText('all agents of Purchasing').waitFor();
    await sidecar.caughtUp();
    const permitted = await sidecar.check(gate, jwt, { permission_key: 'orders:create', amount: 25 });
    expect(permitted.body.decision).toBe('PERMIT');
    expect(await violations(page)).toEqual([]);
    await button('End the standing approval of all agents of Purchasing').click();
    await dialog.getByRole('button', { name: 'End' }).click();
    await page.getByText('Ended: all agents of Purchasing wait for a person again.').waitFor();
  });

  it('denies, and reports when another person was faster', async () => {
    const { api } = world;
    const { gate_id: gate } = await api.createGate({ constraints: { approvals: { above_usd: 20 } } });
    const { jwt } = await api.issuePassport({ agent_id: 'denied-agent' });
    await sidecar.caughtUp();
    const first = await suspend(gate, jwt, 30);
    await visit(page, `/approvals/${first}`);
    await button('Deny').click();
    await says('Denied: denied-agent is blocked.');
    const second = await suspend(gate, jwt, 31);
    await visit(page, `/approvals/${second}`);
    await api.call({ url: `/v1/approvals/${second}/deny`, body: {} });
    await button('Approve').waitFor({ state: 'detached' });
  });
});

describe('gates on the page', () => {
  it("are created, changed in words and as JSON, and refuse to overwrite another person's change", async () => {
    const { api } = world;
    await visit(page, '/gates?new=1');
    await nameInDialog().fill('Gate of the page');
    await inDialog('Create').click();
    await says('What this means');
    const id = new URL(page.url()).pathname.split('/').at(-1);
    const stored = async () => (await api.call({ url: `/v1/gates/${id}` })).body;
    await field('A day, USD').fill('100');
    await says('At most $100.00 may be spent in a day in all.');
    await button('Save the policy').click();
    await until(async () => (await stored()).constraints.spend_limits?.daily_usd === 100, {
      what: 'the limit',
    });
    await field('Edit the policy as JSON').check();
    await field('constraints').fill('{ "rate_limits": { "requests_per_minute": 5 }');
    expect(await button('Save the policy').isDisabled()).toBe(true);
    await field('constraints').fill('{ "rate_limits": { "requests_per_minute": 5 } }');
    await says('At most 5 requests in a minute in all.');
    await button('Save the policy').click();
    await until(async () => (await stored()).constraints.spend_limits === undefined, { what: 'the removal' });
    expect((await stored()).constraints).toEqual({ rate_limits: { requests_per_minute: 5 } });
    await api.call({ method: 'PUT', url: `/v1/gates/${id}`, body: { description: 'Changed elsewhere' } });
    await field('Name').fill('Overwritten');
    await button('Save the policy').click();
    await says('Somebody else changed this while you edited it');
    expect((await stored()).name).toBe('Gate of the page');
  });

  it('show each check of the playground in order, and the limit that refuses', async () => {
    const constraints = { spend_limits: { per_transaction_usd: 10 } };
    const { gate_id } = await world.api.createGate({ constraints });
    await visit(page, `/gates/${gate_id}?tab=try`);
    await field('Amount, USD').fill('11');
    await button('Ask').click();
    await says('It would be blocked');
    const checks = await page.locator('.steps code').allInnerTexts();
    expect(checks).toEqual(['passport', 'trust_level', 'issuer', 'permission', 'spend_limit']);
    await field('Amount, USD').fill('9');
    await button('Ask').click();
    await says('It would be permitted');
    expect(await violations(page)).toEqual([]);
  });

  it('publish catalogs and show what changed', async () => {
    const { gate_id } = await world.api.createGate();
    await visit(page, `/gates/${gate_id}?tab=catalog`);
    await button('Publish a catalog').click();
    await inDialog('Publish').click();
    await says('The first version');
    await button('Publish the next version').click();
    await field('Permissions').fill('[{ "key": "orders:read" }]');
    await inDialog('Publish').click();
    await says('+ orders:read');
    await says('− orders:create');
  });
});

describe('the overview', () => {
  it('names limits that are nearly used, keys that end soon, and how fast sidecars decide', async () => {
    const { api } = world;
    const constraints = { rate_limits: { requests_per_day: 10 }, spend_limits: { daily_usd: 100 } };
    const { gate_id: gate } = await api.createGate({ name: 'Nearly full', constraints });
    const { jwt } = await api.issuePassport();
    for (let n = 0; n < 9; n++) {
      const body = { passport: jwt, request: { permission_key: 'orders:create', amount: 5 } };
      const { decision } = (await api.call({ url: `/v1/gates/${gate}/check`, body })).body;
      expect(decision).toBe('PERMIT');
    }
    const inDays = (days: number) => new Date(api.deps.clock.now() + days * dayMs).toISOString();
    await api.createKey({ name: 'Ends soon', scopes: ['gates:read'], expires_at: inDays(10) });
    await api.createKey({ name: 'Ends late', scopes: ['gates:read'], expires_at: inDays(20) });
    const row = page.getByRole('row').filter({ hasText: '0.05 ms' });
    // The sidecar may report its own before the page has read these.
    const shown = async () => {
      await api.deps.sql`UPDATE sidecars SET decisions = 500, decision_p50_ms = 0.05, decision_p99_ms = 0.25`;
      await visit(page, '/');
      return (await row.allInnerTexts()).join();
    };
    const times = await untilAnswer(shown, (text) => text !== '', { what: 'the times of a sidecar' });
    expect(times).toContain('0.25 ms');
    await says('90 % of requests a day are used at Nearly full');
    await says(/The API key Ends soon ends in \d+ days/);
    expect(await page.getByText('Ends late').count()).toBe(0);
    expect(await page.getByText('usd a day are used').count()).toBe(0);
    expect(await violations(page)).toEqual([]);
    await screenshot(page, 'overview-attention-light');
  });

  it('names channels and endpoints that fail or were stopped for it, and not those that a person stopped', async () => {
    const { api } = world;
    const make = async (path: string, body: object) => (await api.call({ url: `/v1/${path}`, body })).body;
    const target = 'https://hooks.example.com/';
    const channel = (name: string) => make('channels', { name, kind: 'webhook', target });
    const [failing, stopped, off] = [
      await channel('failing'),
      await channel('stopped'),
      await channel('off'),
    ];
    const hook = await make('webhooks', { url: `${target}fails`, events: ['gate.created'] });
    const { sql, clock } = api.deps;
    await sql`UPDATE channels SET failing_since_ms = ${clock.now()} WHERE channel_id = ${failing.channel_id}`;
    await sql`UPDATE webhooks SET failing_since_ms = ${clock.now()} WHERE webhook_id = ${hook.webhook_id}`;
    const stop = (id: string, reason: string) =>
      sql`UPDATE channels SET status = 'disabled', disabled_reason = ${reason} WHERE channel_id = ${id}`;
    await stop(stopped.channel_id, 'gone');
    await stop(off.channel_id, 'owner');
    await visit(page, '/');
    await says('Messages fail: failing');
    await says('Messages have stopped: stopped');
    await says(`Deliveries fail: ${target}fails`);
    for (const [name, limit] of [
      ['Empty purse', 5],
      ['Full purse', 50],
    ] as const) {
      const { wallet_id } = await make('wallets', { name, limits: { total_usd: limit } });
      const { gate_id } = await api.createGate({});
      const { jwt } = await api.issuePassport({ wallet_id, permissions: [request.permission_key] });
      await make(`gates/${gate_id}/check`, { passport: jwt, request: { ...request, amount: 5 } });
    }
    await visit(page, '/');
    await says('The wallet Empty purse is used up');
    expect(await page.getByText('Full purse').count()).toBe(0);
    expect(await page.getByRole('link', { name: 'off', exact: true }).count()).toBe(0);
  });

  it('shows decisions by outcome and reason as pictures and numbers, and the sidecars', async () => {
    const { api } = world;
    const { gate_id } = await api.createGate({ constraints: { spend_limits: { per_transaction_usd: 10 } } });
    const { jwt } = await api.issuePassport();
    for (const amount of [9, 11, 12]) {
      const body = { passport: jwt, request: { ...request, amount } };
      await api.call({ url: `/v1/gates/${gate_id}/check`, body });
    }
    await visit(page, `/gates/${gate_id}`);
    await page.getByRole('img', { name: '3 decisions over time' }).waitFor();
    await page.getByText('The numbers as a table').click();
    const numbers = page.getByRole('table').filter({ hasText: 'Permitted' });
    expect(await numbers.getByRole('row').nth(1).getByRole('cell').allInnerTexts()).toEqual([
      expect.any(String),
      '1',
      '2',
    ]);
    await page.getByRole('row', { name: 'spend limit exceeded 2' }).waitFor();
    await visit(page, '/?span=minute');
    await page.getByRole('img', { name: /decisions over time/ }).waitFor();
    await page.getByRole('row', { name: /current/ }).waitFor();
    await page.getByRole('link', { name: 'spend limit exceeded' }).first().click();
    await page.getByRole('heading', { name: 'Attestations', level: 1 }).waitFor();
    expect(await field('Reason').inputValue()).toBe('spend_limit_exceeded');
  });
});

describe('the page of a record', () => {
  it('shows the policy that decided it, and what of it is another one today', async () => {
    const { api } = world;
    const gate = await api.createGate({ constraints: { spend_limits: { daily_usd: 5 } } });
    const { jwt } = await api.issuePassport();
    const url = `/v1/gates/${gate.gate_id}`;
    const decided = await api.call({
      url: `${url}/check`,
      body: { passport: jwt, request: { permission_key: 'orders:create', amount: 1 } },
    });
    const path = `/attestations/${decided.body.attestation_id}`;
    const card = page.getByRole('region', { name: 'Policy in force' });

    await visit(page, path);
    await card.getByText('Every valid passport may ask.').waitFor();
    await card.getByText('The gate has the same policy today.').waitFor();

    const body = { trust_level: 'L2', constraints: { allowed_domains: ['api.example.com'] } };
    expect((await api.call({ method: 'PUT', url, body })).status).toBe(200);
    await visit(page, path);
    await card.getByText('Demanded today only').waitFor();
    const [then, gone, added] = await card.getByRole('list').all();
    expect(await then?.innerText()).toContain('Every valid passport may ask.');
    expect(await gone?.innerText()).toBe('Every valid passport may ask.');
    expect(await added?.innerText()).toContain('Only passports of trust tier L2 or L3');
    expect(await added?.innerText()).toContain('Requests may only go to api.example.com.');
    await looksGood(page, 'policy-in-force');

    expect((await api.call({ method: 'DELETE', url })).status).toBe(200);
    await visit(page, path);
    await card.getByText('The gate has been deleted since.').waitFor();
  });
});

describe('an export verified in the browser', () => {
  const choose = async (name: string, text: string) => {
    await visit(page, '/verify');
    const file = { name, mimeType: 'application/x-ndjson', buffer: Buffer.from(text) };
    await field('Export to verify').setInputFiles(file);
  };

  it('verifies as exported, and shows the first bad record after a change', async () => {
    const { api } = world;
    const { gate_id } = await api.createGate({ constraints: { spend_limits: { per_transaction_usd: 50 } } });
    const { jwt, passport_id } = await api.issuePassport();
    for (const amount of [1, 2, 3]) {
      await api.call({
        url: `/v1/gates/${gate_id}/check`,
        body: { passport: jwt, request: { ...request, amount } },
      });
    }
    const download = page.waitForEvent('download');
    await visit(page, '/attestations');
    await page.getByRole('button', { name: 'Export', exact: true }).click();
    await page.getByRole('link', { name: 'Download' }).click();
    const text = await readFile(await (await download).path(), 'utf8');
    await choose('export.jsonl', text);
    await says('Everything verifies: export.jsonl');
    const tampered = text.replace('"amount_micro_usd":2000000', '"amount_micro_usd":2000001');
    expect(tampered).not.toBe(text);
    await choose('tampered.jsonl', tampered);
    await says('This export does not verify: tampered.jsonl');
    await says('the hash does not match the record');
    await says(passport_id);
    await says('"amount_micro_usd":2000001');
    expect(await violations(page)).toEqual([]);
  });
});

describe('keys and webhooks on the page', () => {
  it('are made with chosen scopes, rolled, and deleted', async () => {
    const { api } = world;
    await visit(page, '/api-keys?new=1');
    await nameInDialog().fill('key of the page');
    await button('Read for an auditor').click();
    await inDialog('Create').click();
    const key = await page.locator('dialog .secret code').innerText();
    const { status } = await api.call({ url: '/v1/attestations', key });
    expect(status).toBe(200);
    expect((await api.call({ url: '/v1/webhooks', key })).status).toBe(403);
    await field('I have stored it').check();
    await button('Done').click();
    await button('Roll key of the page').click();
    await field('The old key ends').selectOption('At once');
    await inDialog('Roll').click();
    await says('Copy the key now');
    expect((await api.call({ url: '/v1/attestations', key })).status).toBe(401);
    await field('I have stored it').check();
    await button('Done').click();
  });

  it('send a test and show its body, the answer of the endpoint, and a second attempt', async () => {
    const { api } = world;
    const receiver = await startReceiver();
    receiver.answer((response) => response.writeHead(500).end('the shop is closed'));
    const delivering = deliverer(api);
    try {
      await visit(page, '/webhooks?new=1');
      await field('Address').fill(receiver.url);
      await inDialog('Add').click();
      expect(await page.locator('dialog .secret code').innerText()).toMatch(/^whsec_/);
      await field('I have stored it').check();
      await button('Done').click();
      await page.getByRole('link', { name: receiver.url }).click();
      await button('Send a test').click();
      await page.getByRole('row', { name: /500/ }).getByRole('link').click();
      await says('the shop is closed');
      receiver.answer((response) => response.writeHead(204).end());
      await button('Send again').click();
      await says('HTTP 204');
      expect(receiver.received.length).toBeGreaterThanOrEqual(2);
    } finally {
      await delivering.stop();
      await receiver.close();
    }
  });
});

describe('channels on the page', () => {
  it('are added without showing their target again, tested, changed, switched off and deleted', async () => {
    const receiver = await startReceiver();
    try {
      await visit(page, '/channels?new=1');
      await nameInDialog().fill('payments');
      await field('Address of the incoming webhook').fill(
        `${receiver.url}/the-secret-of-the-slack-webhook-1234`,
      );
      await field('Told').selectOption('After 10 minutes');
      await inDialog('Add').click();
      await page.getByRole('link', { name: 'payments' }).click();
      await says('After 10 minutes');
      expect(await page.locator('body').innerText()).not.toContain('the-secret-of');
      await button('Send a test').click();
      await says(/The test was sent, in/);
      receiver.answer((response) => response.writeHead(404).end('channel_not_found'));
      await button('Send a test').click();
      await says(/The test was not sent: bad answer/);
      await says('HTTP 404 channel_not_found');
      await button('Change').click();
      await nameInDialog().fill('refunds');
      await button('Save').click();
      await page.getByRole('heading', { name: 'refunds', level: 1 }).waitFor();
      await button('Switch off').click();
      await says('It was switched off here.');
      expect(await violations(page)).toEqual([]);
      await button('Delete').click();
      await inDialog('Delete').click();
      await page.getByRole('heading', { name: 'Channels', level: 1 }).waitFor();
      await until(async () => (await page.getByRole('link', { name: 'refunds' }).count()) === 0, {
        what: 'the channel is gone from the list',
      });
    } finally {
      await receiver.close();
    }
  });
});

describe('the frame of the console', () => {
  it('is used by keyboard: skip link, palette, an id', async () => {
    const { gate_id } = await world.api.createGate({ name: 'Found by its id' });
    await visit(page, '/');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const focused = () => page.evaluate<string>('document.activeElement.id');
    await until(async () => (await focused()) === 'main', { what: 'the focus on the content' });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('webho');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type(gate_id);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Found by its id', level: 1 }).waitFor();
  });

  it('keeps filters in the address, and the chosen theme over a reload', async () => {
    await visit(page, '/passports');
    await field('Status').selectOption('revoked');
    await until(() => page.url().includes('status=revoked'), { what: 'the filter in the address' });
    await page.reload();
    expect(await field('Status').inputValue()).toBe('revoked');
    await visit(page, '/settings');
    await field('Theme').selectOption('dark');
    await page.reload();
    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor();
    expect(await page.evaluate<string>('document.documentElement.dataset.theme')).toBe('dark');
  });

  it('says on every page that the database went back, and no longer once it is whole again', async () => {
    const { sql } = world.api.deps;
    const look = () => historyOf(sql).refresh();
    await sql`INSERT INTO known_heads (in_generation, feed_id, revision, mark, lost, noticed_at_ms)
      VALUES (1, 'global', 1000000, 'x', 1234, 1)`;
    await look();
    for (const path of ['/approvals', '/gates', '/audit']) {
      await visit(page, path);
      await says('The database went back to an earlier state: it lacks 1,234 changes, 0 records and');
    }
    await sql`DELETE FROM known_heads`;
    await look();
    await until(async () => (await page.getByText('The database went back').count()) === 0, {
      what: 'the line goes by itself',
    });
  });

  it('says that there is no connection, and goes on by itself', async () => {
    await visit(page, '/approvals');
    await page.context().setOffline(true);
    await says('No connection to the service');
    await page.context().setOffline(false);
    await until(async () => (await page.getByText('No connection to the service').count()) === 0, {
      what: 'the connection',
    });
  });
});
