import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/base/until.ts';
import { sharedConsole, violations, visit } from '../support/programs/console.ts';

const world = sharedConsole();
let page: Page;
/** A gate and an agent with hostile names, and older than the 200 whose names are read at once. */
const gateName = 'Köln shop <img src=x>';
let gate: string;
let passport: { readonly passport_id: string; readonly jwt: string };

beforeAll(async () => {
  const { api } = world;
  gate = (await api.createGate({ name: gateName })).gate_id;
  passport = await api.issuePassport({
    agent_id: 'purchasing-7',
    agent_name: 'Mr. Buyer',
    permissions: ['orders:create'],
  });
  await Promise.all(Array.from({ length: 210 }, (_, i) => api.createGate({ name: `Other ${i}` })));
  page = await world.open({ role: 'owner' });
});

const option = (name: string | RegExp) => page.getByRole('option', { name });
const check = async (more: object = {}): Promise<string> => {
  const body = { passport: passport.jwt, request: { permission_key: 'orders:create', ...more } };
  return (await world.api.call({ url: `/v1/gates/${gate}/check`, body })).body.attestation_id;
};
const type = async (text: string) => {
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /^Search/ }).fill(text);
};

describe('the palette', () => {
  it('finds things by a part of their name, whatever its case', async () => {
    await visit(page, '/');
    await type('SHOP');
    await option(/Köln shop/).waitFor();
    expect(await violations(page)).toEqual([]);
    await option(/Köln shop/).click();
    await page.getByRole('heading', { name: gateName, level: 1 }).waitFor();
    for (const part of ['mr. bu', 'CHASING-7']) {
      await type(part);
      await option(/Mr\. Buyer \(purchasing-7\).*active/).click();
      await page.getByRole('heading', { name: 'Mr. Buyer', level: 1 }).waitFor();
    }
  });

  it('runs what needs no page', async () => {
    await type('dark theme');
    await page.keyboard.press('Enter');
    await until(() => page.evaluate<boolean>("document.documentElement.dataset.theme === 'dark'"), {
      what: 'the dark theme',
    });
    await type('theme of the system');
    await page.keyboard.press('Enter');
    await type('test world');
    await page.keyboard.press('Enter');
    await page.getByText('This is the test world').waitFor();
    await type('live world');
    await page.keyboard.press('Enter');
    await page.getByText('This is the test world').waitFor({ state: 'detached' });
  });
});

describe('the filter of a list', () => {
  it('finds by a part of the name, also what is older than the first page', async () => {
    await visit(page, '/gates');
    await page.getByRole('textbox', { name: 'Name' }).fill('KÖLN');
    await page.getByRole('link', { name: gateName }).waitFor();
    await page.getByRole('link', { name: 'Other 209' }).waitFor({ state: 'detached' });
    expect(await violations(page)).toEqual([]);
    await page.reload();
    await page.getByRole('link', { name: gateName }).waitFor();
    await page.getByRole('textbox', { name: 'Name' }).fill('nowhere at all');
    await page.getByText('None match').waitFor();
  });

  it.each(['/templates', '/webhooks', '/channels', '/people'])('stands on %s, too', async (path) => {
    await visit(page, `${path}?name=nowhere`);
    await page.getByText('None match').waitFor();
    const name = () => page.getByRole('textbox', { name: 'Name' }).inputValue();
    await until(async () => (await name()) === 'nowhere', { what: 'the name in its field' });
    expect(await violations(page)).toEqual([]);
  });
});

describe('names', () => {
  it('stand beside the ids of the audit, and are offered where an id is asked for', async () => {
    const { keyId: key_id } = await world.api.createKey({
      name: 'Key of the shop',
      scopes: ['gates:create'],
    });
    await visit(page, `/audit?target=${key_id}`);
    const row = page.getByRole('row', { name: /create api key/ });
    await row.getByText('Key of the shop').waitFor();
    await row.getByText(key_id).waitFor();
    const offered = page.locator('#targets option', { hasText: 'Key of the shop' });
    await until(async () => (await offered.count()) === 1, { what: 'the name on offer' });
    expect(await offered.getAttribute('value')).toBe(key_id);
  });
});

describe('filters of records', () => {
  it('take times of one’s own, and are kept under a name', async () => {
    await check();
    await visit(page, '/attestations');
    await page.getByLabel('Period').selectOption('custom');
    await page.getByLabel('From').fill('2026-01-02T03:04');
    await until(() => page.url().includes('since=2026-01-02T'), { what: 'the time in the address' });
    await page.getByLabel('Decision').selectOption('PERMIT');
    await until(() => page.url().includes('decision=PERMIT'), { what: 'the decision in the address' });
    await page.getByRole('button', { name: 'Save this filter' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Permits of the year');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('link', { name: 'Clear' }).click();
    await until(() => !page.url().includes('since='), { what: 'no filter' });
    await page.reload();
    await page.getByLabel('Saved filters').selectOption('Permits of the year');
    await until(() => page.url().includes('decision=PERMIT'), { what: 'the filter again' });
    const from = () => page.getByLabel('From').inputValue();
    await until(async () => (await from()) === '2026-01-02T03:04', { what: 'the time in its field' });
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Forget this filter' }).click();
    await page.getByLabel('Saved filters').waitFor({ state: 'detached' });
  });

  it('are not read from what somebody else has stored', async () => {
    await page.evaluate(
      'for (const key of [\'[{"name":1}]\', \'{\', \'[{"name":"a","search":{"since":{}}}]\']) for (const each of Object.keys(localStorage)) if (each.includes(\'filters\')) localStorage.setItem(each, key)',
    );
    await visit(page, '/attestations');
    expect(await page.getByLabel('Saved filters').count()).toBe(0);
  });

  it('export in the format and of the period that one asks for', async () => {
    await check();
    await visit(page, '/attestations');
    await page.getByRole('button', { name: 'Export' }).click();
    await page.getByLabel('Format').selectOption('csv');
    await page.getByRole('dialog').getByLabel('Period').selectOption('24');
    expect(await violations(page)).toEqual([]);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download' }).click(),
    ]);
    expect(download.suggestedFilename()).toMatch(/\.csv$/);
    expect(download.url()).toContain('since=');
    const text = await readFile(await download.path(), 'utf8');
    expect(text).toContain('orders:create');
    expect(text).not.toContain('{');
    await page.getByRole('button', { name: 'Close' }).click();
  });
});

describe('the request log', () => {
  it('shows decisions as they are made, finds them by names, and stands still when told to', async () => {
    await visit(page, '/log');
    const shown = (id: string) => page.locator(`a[href$="/attestations/${id}"]`);
    const first = await check();
    await shown(first).waitFor();
    await page.getByLabel(/^Part of/).fill('mr. buyer');
    await shown(first).waitFor();
    await page.getByLabel(/^Part of/).fill('nowhere');
    await page.getByText('None match').waitFor();
    await page.getByLabel(/^Part of/).fill('');
    await page.getByRole('button', { name: 'Pause' }).click();
    const second = await check();
    await page.getByText('Paused:').waitFor();
    await page.getByRole('button', { name: 'Go on' }).click();
    await shown(second).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it('marks the test of a gate, whatever its outcome', async () => {
    const test = { passport_token: passport.jwt, requested_action: 'orders:refund', context: {} };
    const { body } = await world.api.call({ url: `/v1/gates/${gate}/test`, body: test });
    expect(body.decision).toBe('block');
    await page.getByText(/gate test permission not granted/).waitFor();
    await visit(page, '/attestations');
    await page.getByText(/gate test: permission not granted/).waitFor();
  });
});

describe('the routes of a gate', () => {
  it('are added, moved and removed, with what is wrong at its field', async () => {
    await visit(page, `/gates/${gate}?tab=routes`);
    const row = (place: number) => page.getByRole('group', { name: `Route ${place}` });
    const add = async (place: number, path: string, permission: string) => {
      await page.getByRole('button', { name: 'Add a route' }).click();
      await row(place).getByLabel('Path').fill(path);
      await row(place).getByLabel('Permission').fill(permission);
    };
    await add(1, '/orders/:id', 'orders:read');
    await add(2, '/orders', 'Not A Permission');
    await row(2).getByLabel('Methods').fill('post, put');
    await row(2).getByLabel('Amount, USD').fill('2.5');
    await page.getByRole('button', { name: 'Save the routes' }).click();
    await row(2).locator('[aria-invalid="true"]').waitFor();
    await row(2).getByLabel('Permission').fill('orders:create');
    await page.getByRole('button', { name: 'Move route 2 up' }).click();
    await page.getByRole('button', { name: 'Save the routes' }).click();
    await page.getByText('Routes saved.').waitFor();
    const stored = async () => (await world.api.call({ url: `/v1/gates/${gate}` })).body.routes;
    expect(await stored()).toEqual([
      { methods: ['POST', 'PUT'], path: '/orders', permission_key: 'orders:create', amount_usd: 2.5 },
      { path: '/orders/:id', permission_key: 'orders:read' },
    ]);
    expect(await violations(page)).toEqual([]);
    // A second change goes on from the first; one of somebody else is not overwritten.
    await page.getByRole('button', { name: 'Remove route 1' }).click();
    await page.getByRole('button', { name: 'Save the routes' }).click();
    await until(async () => (await stored()).length === 1, { what: 'one route' });
    await world.api.call({ method: 'PUT', url: `/v1/gates/${gate}`, body: { description: 'changed' } });
    await page.getByRole('button', { name: 'Remove route 1' }).click();
    await page.getByRole('button', { name: 'Save the routes' }).click();
    await page.getByText('Somebody else changed this').waitFor();
    expect(await stored()).toHaveLength(1);
  });
});
