import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteFirstOwner } from '../../control-plane/people/invite-first-owner.ts';
import { until } from '../support/base/until.ts';
import { startTestProvider, type TestProvider } from '../support/peers/test-provider.ts';
import {
  looksGood,
  screenshot,
  sharedConsole,
  startConsole,
  violations,
} from '../support/programs/console.ts';

let provider: TestProvider;
afterAll(() => provider?.close());
const world = sharedConsole({
  provider: async (origin) => {
    provider = await startTestProvider({ origin });
    return provider.settings;
  },
});

describe('a login with an identity provider', () => {
  // First, because what is known of a provider is kept for minutes.
  it('offers the password alone while the provider is away', async () => {
    provider.state = 'away';
    const page = await world.open();
    await page.goto('/console/');
    await page.getByText('Example Login cannot be reached now. Log in with your password.').waitFor();
    expect(await page.getByRole('button', { name: 'Continue with Example Login' }).isDisabled()).toBe(true);
    expect(await violations(page)).toEqual([]);
    provider.state = 'well';
    const methods = () => world.api.call({ url: '/v1/login-methods', key: null });
    await until(async () => (await methods()).body.oidc.available, { what: 'the provider to be back' });
  });

  it('logs in with the provider and shows the page that was asked for', async () => {
    const { email } = await world.api.createUser({ role: 'auditor' });
    const page = await world.open();
    await page.goto('/console/audit?operation=createGate');
    await page.getByRole('button', { name: 'Continue with Example Login' }).waitFor();
    await looksGood(page, 'login-oidc');
    provider.person = { sub: 'browser', email, email_verified: true };
    await page.getByRole('button', { name: 'Continue with Example Login' }).click();
    await page.getByRole('heading', { name: 'Audit', level: 1 }).waitFor();
    expect(await page.getByLabel('Operation').inputValue()).toBe('createGate');
  });

  it('explains a refused login, and leads back to the login page', async () => {
    const page = await world.open();
    const refused = async (text: string) => {
      await page.goto('/console/');
      await page.getByRole('button', { name: 'Continue with Example Login' }).click();
      await page.getByRole('heading', { name: 'You are not logged in' }).waitFor();
      await page.getByRole('alert').getByText(text).waitFor();
      // Neither code nor state stay in the address.
      expect(new URL(page.url()).search).toBe('');
    };
    provider.person = null;
    await refused('did not let you in');
    provider.person = { sub: 'nobody', email: 'nobody@example.com', email_verified: true };
    await refused(
      'No active user here has the address nobody@example.com, and no invitation is open for it.',
    );
    await looksGood(page, 'login-oidc-refused');
    await page.getByRole('link', { name: 'Back to the login' }).click();
    await page.getByRole('heading', { name: 'Log in to agent-trust' }).waitFor();
  });
});

/** The field has the focus, says what is wrong where a reader of the screen looks, and nothing else does. */
async function expectFault(page: Page, label: string, message: string | RegExp): Promise<void> {
  // The list behind a dialog may have a filter of the same name.
  const field = page.locator('form').getByLabel(label, { exact: true });
  await page.locator('[aria-invalid="true"]').waitFor();
  expect(await field.getAttribute('aria-invalid')).toBe('true');
  const ids = (await field.getAttribute('aria-describedby'))?.split(' ') ?? [];
  const texts = await Promise.all(ids.map((id) => page.locator(`[id="${id}"]`).textContent()));
  expect(texts.join('\n')).toMatch(message);
  const focused = () => page.locator(':focus').getAttribute('id');
  const hasFocus = async () => (await focused()) === (await field.getAttribute('id'));
  await until(hasFocus, { what: `the focus on ${label}` });
  expect(await page.locator('.notice.bad').count()).toBe(0);
}

/** Sends what the browser itself would refuse. */
const withoutOwnChecks = (page: Page): Promise<void> =>
  page.evaluate('for (const form of document.forms) form.noValidate = true');

describe('an error stands at its field', () => {
  let page: Page;
  beforeAll(async () => {
    page = await world.open({ role: 'owner' });
  });

  it.each([
    ['/people?new=1', 'Email', 'kir\u212a@example.com', /plain letters/],
    ['/webhooks?new=1', 'Address', 'https://localhost/hook', /./],
    ['/channels?new=1', 'Address of the incoming webhook', 'https://localhost/hook', /public address/],
    ['/issuers?new=1', 'Domain', 'no domain at all', /domain/],
    ['/gates?new=1', 'Name', 'a\u202eb', /bidirectional/],
    ['/passports?new=1', 'Permissions', 'NoPermission', /permission/],
    ['/api-keys?new=1', 'Name', 'a\u202eb', /bidirectional/],
    ['/templates?new=1', 'Name', 'a\u202eb', /bidirectional/],
  ])('of %s', async (path, label, value, message) => {
    await page.goto(`/console${path}`);
    const form = page.locator('dialog form');
    await form.waitFor();
    for (const other of await form.locator('input:not([type=checkbox]), textarea').all())
      if ((await other.inputValue()) === '') await other.fill('x1');
    await form.getByLabel(label, { exact: true }).fill(value);
    await withoutOwnChecks(page);
    await form.locator('button[type=submit]').click();
    await expectFault(page, label, message);
    expect(await violations(page)).toEqual([]);
  });

  it('of the own password, and of a password that is too short', async () => {
    await page.goto('/console/settings');
    await page.getByLabel('Password now').fill('not my password');
    await page.getByLabel('New password').fill('a long enough password');
    await page.getByRole('button', { name: 'Change the password' }).click();
    await expectFault(page, 'Password now', /not your password/);
  });
});

describe('the invitation of a first owner', () => {
  it('asks for the address at once, and shows its fault at the field', async () => {
    const fresh = await startConsole();
    try {
      const link = new URL((await inviteFirstOwner(fresh.api.deps)) ?? '');
      const page = await fresh.open();
      await page.goto(`${link.pathname}${link.search}${link.hash}`);
      await page.getByLabel('Your email').waitFor();
      expect(new URL(page.url()).hash).toBe('');
      await looksGood(page, 'first-owner');
      await page.getByLabel('Your name').fill('Ada');
      await page.getByLabel('Choose a password').fill('the very first password');
      await page.getByLabel('Your email').fill('ada\u200b@example.com');
      await withoutOwnChecks(page);
      await page.getByRole('button', { name: 'Join' }).click();
      await expectFault(page, 'Your email', /plain letters/);
      await screenshot(page, 'first-owner-fault');
      await page.getByLabel('Your email').fill('ada@example.com');
      await page.getByRole('button', { name: 'Join' }).click();
      await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
      // One word, one meaning.
      expect(await page.getByText('Live', { exact: true }).count()).toBe(1);
      await screenshot(page, 'overview-first-owner');
    } finally {
      await fresh.close();
    }
  });

  it("is not asked for by an invited user's link", async () => {
    const invited = await world.api.call({
      url: '/v1/users',
      body: { email: 'invited@example.com', role: 'auditor' },
    });
    const link = new URL(invited.body.invitation_url);
    const page = await world.open();
    await page.goto(`${link.pathname}${link.search}${link.hash}`);
    await page.getByLabel('Your name').waitFor();
    expect(await page.getByLabel('Your email').count()).toBe(0);
  });
});

describe('a person with users in two accounts', () => {
  it('names the account, with a password and with the identity provider', async () => {
    const accounts = [];
    for (const name of ['One', 'Two']) accounts.push(await world.api.createAccount({ name }));
    const person = { email: 'of-two@example.com', password: 'one password for both' };
    for (const { key } of accounts) await world.api.createUser({ ...person, role: 'auditor' }, key);
    const page = await world.open();
    await page.goto('/console/settings');
    await page.getByLabel('Email').fill(person.email);
    await page.getByLabel('Password').fill(person.password);
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await expectFault(page, 'Account ID', /One \(acct_\w+\), Two \(acct_\w+\)/);
    await screenshot(page, 'login-account');
    await page.getByLabel('Account ID').fill(accounts[1]?.accountId ?? '');
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor();
    await page.getByText('Two', { exact: true }).waitFor();

    const other = await world.open();
    provider.person = { sub: 'of-two', email: person.email, email_verified: true };
    await other.goto('/console/settings');
    await other.getByRole('button', { name: 'Continue with Example Login' }).click();
    await other.getByLabel('Account ID').fill(accounts[0]?.accountId ?? '');
    expect(await violations(other)).toEqual([]);
    await screenshot(other, 'login-oidc-account');
    await other.getByRole('button', { name: 'Continue', exact: true }).click();
    await other.getByRole('heading', { name: 'Settings', level: 1 }).waitFor();
    await other.getByText('One', { exact: true }).waitFor();
  });
});
