import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/base/until.ts';
import { looksGood, sharedConsole, violations, visit } from '../support/programs/console.ts';
import type { Reply } from '../support/service/api.ts';
import { makeWallet, walletOf } from '../support/service/wallets.ts';

const world = sharedConsole();
let page: Page;
beforeAll(async () => {
  page = await world.open({ role: 'owner' });
});

const button = (name: string | RegExp) => page.getByRole('button', { name, exact: typeof name === 'string' });
const dialog = () => page.getByRole('dialog');
const inDialog = (name: string) => dialog().getByRole('button', { name, exact: true });
const says = (text: string | RegExp) => page.getByText(text).first().waitFor();
const idOnPage = (): string => /wal_[0-9a-z]{26}/.exec(page.url())?.[0] ?? '';
const titled = (name: string) => page.getByRole('heading', { name, level: 1 }).waitFor();

async function spend(passport: Reply['body'], gateId: string, request: object): Promise<Reply['body']> {
  const body = { passport: passport.jwt, request: { permission_key: 'orders:create', ...request } };
  return (await world.api.call({ url: `/v1/gates/${gateId}/check`, body })).body;
}

describe('wallets on the page', () => {
  it('are made, put below each other, used by passports, and taken away', async () => {
    const { api } = world;
    await visit(page, '/wallets');
    await button('Create a wallet').first().click();
    await dialog().getByLabel('Name').fill('Company');
    await dialog().getByLabel('USD a month').fill('1000');
    await inDialog('Create').click();
    await titled('Company');
    const company = idOnPage();
    await page.getByRole('link', { name: 'Create one here' }).click();
    await dialog().getByLabel('Name').fill('Buying');
    await dialog().getByLabel('USD a day').fill('2000');
    await dialog().getByLabel('USD a month').fill('20000000000');
    await inDialog('Create').click();
    await dialog()
      .getByText(/at most 1e9/)
      .first()
      .waitFor();
    await dialog().getByLabel('USD a month').fill('');
    await dialog().getByLabel('USD a day').fill('200');
    await inDialog('Create').click();
    await titled('Buying');
    const team = idOnPage();
    expect(await walletOf(api, team)).toMatchObject({
      parent_wallet_id: company,
      limits: { daily_usd: 200 },
    });
    expect((await walletOf(api, team)).limits).not.toHaveProperty('monthly_usd');

    await visit(page, '/passports?new=1');
    await dialog().getByLabel('Agent id').fill('wallet-buyer');
    await dialog().getByLabel('Permissions').fill('orders:create');
    await dialog().getByLabel('Wallet').fill(team);
    await inDialog('Issue').click();
    await says('Copy both now');
    const passportId = await page.locator('dialog code', { hasText: /^pass_/ }).innerText();
    const jwt = (await page.locator('dialog .secret code').allInnerTexts())[0];
    const { gate_id } = await api.createGate();
    const passport = { jwt };
    await spend(passport, gate_id, { amount: 30 });
    const held = await spend(passport, gate_id, { amount: 20, hold: true });
    expect(held).toMatchObject({ decision: 'PERMIT' });

    await visit(page, `/wallets/${team}`);
    await says('$150.00 left of $200.00');
    await says(/\$30\.00 used, \$20\.00 held; resets/);
    await looksGood(page, 'wallet-used');
    await page.getByRole('link', { name: 'Statement' }).click();
    await says('$50.00 in 2 PERMITs');
    await page.getByRole('table', { name: 'Statement' }).getByText('wallet-buyer').waitFor();
    await looksGood(page, 'wallet-statement-used');
    await visit(page, `/attestations/${held.attestation_id}`);
    await page.getByRole('link', { name: 'Buying' }).click();
    await titled('Buying');

    await visit(page, `/passports/${passportId}`);
    await button('Move to another wallet').click();
    await dialog().getByLabel('Wallet').fill(company);
    await inDialog('Move it').click();
    await page.getByRole('link', { name: 'Company' }).waitFor();
    await button('Move to another wallet').click();
    await dialog().getByLabel('Wallet').fill('wal_01m7w739pyh5af5epc0s64v3bj');
    await inDialog('Move it').click();
    await dialog().getByRole('alert').or(dialog().locator('.fault')).first().waitFor();
    await dialog().getByLabel('Wallet').fill('');
    await inDialog('Take it out').click();
    await button('Put into a wallet').waitFor();
    const { body } = await api.call({ url: `/v1/passports/${passportId}` });
    expect(body.wallet_id).toBe(null);

    await visit(page, `/wallets/${company}`);
    expect(await button('Delete').count()).toBe(0);
    await visit(page, `/wallets/${team}`);
    await button('Delete').click();
    await inDialog('Delete it').click();
    await titled('Wallets');
    expect((await api.call({ url: `/v1/wallets/${team}` })).status).toBe(404);
  });

  it('are changed, moved, frozen and unfrozen, each after a question', async () => {
    const { api } = world;
    const { wallet_id: one } = await makeWallet(api, { name: 'One', limits: { daily_usd: 10 } });
    const { wallet_id: two } = await makeWallet(api, { name: 'Two', limits: { daily_usd: 100 } });
    const passport = await api.issuePassport({ wallet_id: one });
    const { gate_id } = await api.createGate();
    await visit(page, `/wallets/${one}`);
    await button('Change or move').click();
    await dialog().getByLabel('Below').fill(two);
    await dialog().getByLabel('Share').selectOption('reserved');
    await dialog().getByLabel('USD a day').fill('101');
    await dialog().getByLabel('Alert at percent').fill('57.5');
    await inDialog('Save').click();
    await dialog()
      .getByText(/may not sum to more/)
      .first()
      .waitFor();
    await dialog().getByLabel('USD a day').fill('40');
    await inDialog('Save').click();
    await says('reserved in the wallet above');
    expect(await walletOf(api, one)).toMatchObject({
      ...{ parent_wallet_id: two, share: 'reserved', alert_at: 0.575, limits: { daily_usd: 40 } },
    });
    await button('Freeze').click();
    await inDialog('Cancel').click();
    expect((await walletOf(api, one)).status).toBe('active');
    await button('Freeze').click();
    expect(await violations(page)).toEqual([]);
    await inDialog('Freeze it').click();
    await says('Frozen. Gates block its passports.');
    expect(await spend(passport, gate_id, { amount: 1 })).toMatchObject({ reason: 'wallet_frozen' });
    await button('Unfreeze').click();
    await inDialog('Unfreeze it').click();
    await button('Freeze').waitFor();
    expect(await spend(passport, gate_id, { amount: 1 })).toMatchObject({ decision: 'PERMIT' });
    const reader = await world.open({ role: 'read_only' });
    await visit(reader, `/wallets/${one}`);
    await reader.getByText('$39.00 left of $40.00').waitFor();
    expect(await reader.getByRole('button', { name: /freeze|change|delete/i }).count()).toBe(0);
  });

  it('are a tree that is opened level by level, page by page, and found by a part of the name', async () => {
    const { api } = world;
    const { wallet_id: root } = await makeWallet(api, { name: 'Forest', limits: { total_usd: 1_000 } });
    let parent = root;
    for (let level = 2; level <= 5; level++)
      parent = (await makeWallet(api, { name: `Level ${level}`, parent_wallet_id: parent })).wallet_id;
    // As many as an account may have, but for those of the other tests.
    await api.deps.sql`
      INSERT INTO wallets (wallet_id, account_id, mode, wallet_key, name, parent_id, path, limits, share, set_aside,
        alert_at, status, created_at_ms, changed_at_ms)
      SELECT id, account_id, mode, id, 'Leaf ' || n, wallet_id, ARRAY[id, wallet_id], '{}', 'pot', '{}', 0.8, 'active',
        created_at_ms, 0
      FROM wallets, LATERAL (SELECT n, 'wal_' || lpad(n::text, 26, '0') AS id FROM generate_series(1, 9900) AS n) AS leaf
      WHERE wallet_id = ${root}`;
    const requests: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes('/v1/wallets')) requests.push(request.url());
    });
    await visit(page, '/wallets');
    await button('Open Forest').click();
    await says('$1,000.00 left of $1,000.00');
    for (const level of [2, 3, 4, 5]) await button(`Open Level ${level}`).click();
    await until(async () => (await button('Close Level 5').count()) === 1, { what: 'five levels' });
    await looksGood(page, 'wallets-open');
    const leaves = () => page.getByRole('link', { name: /^Leaf \d+$/ }).count();
    expect(await leaves()).toBe(49);
    await button(/^Show more of 9,851$/).click();
    await until(async () => (await leaves()) === 99, { what: 'a second page' });
    // What was never opened was never asked for.
    expect(requests.length).toBeLessThan(60);
    await page.getByLabel('Name').fill('leaf 4711');
    await page.getByRole('link', { name: 'Leaf 4711' }).waitFor();
    await until(async () => (await leaves()) === 1, { what: 'one leaf' });
    await page.getByRole('link', { name: 'Leaf 4711' }).click();
    await titled('Leaf 4711');
    await page.getByRole('link', { name: 'Forest' }).waitFor();
  });
});
