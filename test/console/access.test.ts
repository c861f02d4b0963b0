import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { totpCode } from '../../control-plane/people/totp.ts';
import type { LoggedIn } from '../support/api.ts';
import {
  follow,
  join,
  password,
  screenshot,
  startConsole,
  type TestConsole,
  violations,
  visit,
} from '../support/console.ts';

let world: TestConsole;

beforeAll(async () => {
  world = await startConsole();
});
afterAll(() => world?.close());

async function logIn(
  page: Page,
  { email, password: secret }: Pick<LoggedIn, 'email' | 'password'>,
): Promise<void> {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password').fill(secret);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** The code that an authenticator app shows for this secret in base32. */
function codeOfSecret(secret: string, nowMs: number): string {
  const bits = [...secret].map((char) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(char));
  const text = bits.map((five) => five.toString(2).padStart(5, '0')).join('');
  const bytes = (text.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2));
  return totpCode(Uint8Array.from(bytes), Math.floor(nowMs / 30_000));
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
    await page.getByLabel('Code that the app shows').fill(codeOfSecret(secret, world.api.deps.clock.now()));
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
    await guest.getByRole('link', { name: 'Audit', exact: true }).click();
    await heading(guest, 'Log in to agent-trust').waitFor();
  });
});
