import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import {
  follow,
  giveAuthenticator,
  join,
  looksGood,
  password,
  screenshot,
  sharedConsole,
  violations,
  visit,
} from '../support/programs/console.ts';
import type { LoggedIn } from '../support/service/api.ts';
import { codeOf, readBase32 } from '../support/service/good-calls.ts';

const world = sharedConsole();

async function logIn(
  page: Page,
  { email, password: secret }: Pick<LoggedIn, 'email' | 'password'>,
): Promise<void> {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password').fill(secret);
  await page.getByRole('button', { name: 'Log in' }).click();
}

const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 1 });

describe('access to the console', () => {
  it('begins with an invitation that works once, and leaves no token in the address', async () => {
    const invited = await world.api.call({
      url: '/v1/users',
      body: { email: 'first@example.com', role: 'owner' },
    });
    const path = `/invitation${new URL(invited.body.invitation_url).hash}`;
    const page = await world.open();
    await page.goto(`/console${path}`);
    await heading(page, 'Join agent-trust').waitFor();
    expect(page.url()).not.toContain('token');
    await page.getByText('An API key invites first@example.com to the account').waitFor();
    await page.getByText(', as owner.').waitFor();
    expect(await violations(page)).toEqual([]);
    await screenshot(page, 'invitation-light');
    await join(page, path);
    const other = await world.open();
    await other.goto(`/console${path}`);
    await other.getByLabel('Your name').fill('Eve');
    await other.getByLabel('Choose a password').fill(password);
    await other.getByRole('button', { name: 'Join' }).click();
    await other.getByRole('alert').waitFor();
  });

  it('shows the page that was asked for after the login, and nothing of it before', async () => {
    const user = await world.api.createUser({ role: 'auditor' });
    const page = await world.open({ user });
    await visit(page, '/settings');
    await page.getByRole('button', { name: 'Log out' }).click();
    await heading(page, 'Log in to agent-trust').waitFor();
    await page.goto('/console/audit?operation=createGate');
    await heading(page, 'Log in to agent-trust').waitFor();
    expect(await violations(page)).toEqual([]);
    await screenshot(page, 'login-light');
    await logIn(page, { ...user, password: 'not the password of this person' });
    await page.getByText('The email, the password or the code is wrong.').waitFor();
    await logIn(page, user);
    await heading(page, 'Audit').waitFor();
    expect(await page.getByLabel('Operation').inputValue()).toBe('createGate');
    expect(new URL(page.url()).origin).toBe(world.origin);
  });

  it('asks for the code of a second factor once that is switched on', async () => {
    const user = await world.api.createUser({ role: 'approver' });
    const page = await world.open({ user });
    await visit(page, '/settings');
    await page.getByRole('button', { name: 'Set it up' }).click();
    const secret = await page.locator('.secret code').innerText();
    await page
      .getByLabel('Code that the app shows')
      .fill(codeOf(readBase32(secret), world.api.deps.clock.now()));
    await page.getByRole('button', { name: 'Switch on' }).click();
    await page.getByText('Recovery codes').first().waitFor();
    const [recovery = ''] = (await page.locator('.secret code').first().innerText()).split('\n');
    await page.getByRole('button', { name: 'Log out' }).click();
    await logIn(page, user);
    await page.getByLabel('Code of your authenticator app').fill(recovery);
    await page.getByRole('button', { name: 'Log in' }).click();
    await heading(page, 'Settings').waitFor();
    await page.getByRole('button', { name: 'Switch off' }).click();
    expect(await violations(page)).toEqual([]);
    await screenshot(page, 'totp-off-light');
    await page.getByLabel('Your password').fill('not the password of this person');
    await page.getByRole('button', { name: 'Switch it off' }).click();
    await page.getByText('password is not your password.').waitFor();
    await page.getByLabel('Your password').fill(user.password);
    await page.getByRole('button', { name: 'Switch it off' }).click();
    await page.getByText('Off. A stolen password is enough to log in as you.').waitFor();
  });

  it('is by a passkey that one adds, to the page that was asked for, until it is removed', async () => {
    const user = await world.api.createUser({ role: 'auditor' });
    const page = await world.open({ user });
    const { unlock } = await giveAuthenticator(page);
    await visit(page, '/settings');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await looksGood(page, 'passkey-new');
    await page.getByLabel('Name of the passkey').fill('Laptop of Ada');
    await page.getByLabel('Your password').fill('not the password of this person');
    await page.getByRole('button', { name: 'Add it' }).click();
    await page.getByText('password is not your password.').waitFor();
    await page.getByLabel('Your password').fill(user.password);
    await page.getByRole('button', { name: 'Add it' }).click();
    await page.getByText('The passkey was added.').waitFor();
    await page.getByRole('button', { name: 'Change the passkey Laptop of Ada' }).waitFor();
    expect(await violations(page)).toEqual([]);

    await page.getByRole('button', { name: 'Log out' }).click();
    await heading(page, 'Log in to agent-trust').waitFor();
    await page.goto('/console/audit?operation=createGate');
    await unlock(false);
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await page.getByRole('alert').getByText('No passkey was used').waitFor();
    expect(await violations(page)).toEqual([]);
    await unlock(true);
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await heading(page, 'Audit').waitFor();
    expect(await page.getByLabel('Operation').inputValue()).toBe('createGate');

    await visit(page, '/settings');
    await page.getByRole('button', { name: 'Change the passkey Laptop of Ada' }).click();
    await page.getByLabel('Name of the passkey').fill('Old laptop');
    await page.getByRole('button', { name: 'Save the name' }).click();
    await page.getByRole('button', { name: 'Change the passkey Old laptop' }).click();
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('The passkey was removed.').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await page.getByRole('alert').getByText('This passkey does not log you in here.').waitFor();
  });

  it('ends on every page when the session is ended elsewhere', async () => {
    const user = await world.api.createUser({ role: 'read_only' });
    const page = await world.open({ user });
    await visit(page, '/verify');
    const other = await world.open();
    await other.goto('/console/settings');
    await logIn(other, user);
    await other.getByRole('button', { name: 'End' }).click();
    await other.getByRole('button', { name: 'End it' }).click();
    await other.getByText('That session has ended.').waitFor();
    // Whatever the page asks for next ends it; it may have done that by itself.
    await page.evaluate("void __TSR_ROUTER__.navigate({ href: '/console/gates' })");
    await heading(page, 'Log in to agent-trust').waitFor();
  });
});

describe('what a role may do', () => {
  it.each([
    ['approver', ['Approvals', 'Gates', 'Passports'], ['API keys', 'People', 'Webhooks', 'Audit']],
    ['auditor', ['Attestations', 'Audit', 'Gates'], ['API keys', 'People', 'Webhooks']],
    ['read_only', ['Attestations', 'Gates'], ['API keys', 'People', 'Webhooks', 'Audit']],
    ['admin', ['API keys', 'People', 'Webhooks', 'Audit'], []],
  ] as const)('is what the pages offer: %s', async (role, shown, hidden) => {
    const page = await world.open({ role });
    await visit(page, '/passports');
    const links = await page.getByRole('navigation', { name: 'Console' }).getByRole('link').allInnerTexts();
    for (const label of shown) expect(links).toContain(label);
    for (const label of hidden) expect(links).not.toContain(label);
    expect(await page.getByRole('button', { name: 'Issue a passport' }).count()).toBe(
      role === 'admin' ? 2 : 0,
    );
    await follow(page, '/api-keys');
    if (role !== 'admin') await page.getByText('Your role does not allow this.').first().waitFor();
    await page.context().close();
  });

  it('asks an owner to confirm whom a key has invited', async () => {
    const page = await world.open({ role: 'owner' });
    const { body } = await world.api.call({
      ...{ url: '/v1/users', body: { email: 'by-key@example.com', role: 'approver' } },
    });
    const guest = await world.open();
    await join(guest, `/invitation${new URL(body.invitation_url).hash}`);
    await visit(page, '/');
    await page.getByText('answers no approvals until you confirm them').first().waitFor();
    await visit(page, '/people?name=by-key');
    await page.getByText('unconfirmed').waitFor();
    await page.getByRole('button', { name: 'Change by-key@example.com' }).click();
    await screenshot(page, 'people-unconfirmed-light');
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('Confirmed. They may answer approvals now.').waitFor();
    const read = await world.api.call({ url: `/v1/users/${body.user.user_id}` });
    expect(read.body.confirmed).toBe(true);
  });

  it('is changed by an owner, who invites with a link that is shown once', async () => {
    const page = await world.open({ role: 'owner' });
    await visit(page, '/people?new=1');
    await page.getByLabel('Email').fill('new@example.com');
    await page.getByLabel('Role').selectOption('auditor');
    await page.getByRole('button', { name: 'Make the link' }).click();
    const link = new URL(await page.locator('.secret code').innerText());
    await screenshot(page, 'people-link-light');
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Done' }).click();
    const guest = await world.open();
    await join(guest, `/invitation${link.hash}`);
    await page.getByRole('button', { name: 'Change new@example.com' }).click();
    await page.getByLabel('Role').selectOption('read only');
    await page.getByRole('button', { name: 'Save the role' }).click();
    await page.getByText('Saved. Their sessions have ended.').waitFor();
    for (const button of ['Invite somebody', 'Change new@example.com']) {
      const opener = page.getByRole('button', { name: button });
      await opener.click();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(await opener.evaluate((element) => element.matches(':focus'))).toBe(true);
    }
    // Whatever the page asks for next ends it; it may have done that by itself.
    await guest.evaluate("void __TSR_ROUTER__.navigate({ href: '/console/audit' })");
    await heading(guest, 'Log in to agent-trust').waitFor();
  });
});
