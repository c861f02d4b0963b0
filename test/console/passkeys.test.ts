import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { screenshot, show, startConsole, type TestConsole, violations, visit } from '../support/console.ts';

let world: TestConsole;
beforeAll(async () => {
  world = await startConsole();
});
afterAll(() => world?.close());

/** Gives the browser of this page an authenticator, whose person unlocks it at once or never. */
async function withAuthenticator(page: Page): Promise<{ unlock(isUnlocked: boolean): Promise<void> }> {
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return {
    unlock: async (isUserVerified) => {
      await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified });
    },
  };
}

const heading = (page: Page, name: string) => page.getByRole('heading', { name, level: 1 });

it('adds a passkey, logs in with it to the page that was asked for, and removes it', async () => {
  const user = await world.api.createUser({ role: 'auditor' });
  const page = await world.open({ user });
  const { unlock } = await withAuthenticator(page);
  await visit(page, '/settings');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  for (const isDark of [true, false]) {
    await show(page, { isPhone: false, isDark });
    expect(await violations(page)).toEqual([]);
    await screenshot(page, `passkey-new-${isDark ? 'dark' : 'light'}`);
  }
  await page.getByLabel('Name of the passkey').fill('Laptop of Ada');
  await page.getByLabel('Your password').fill('not the password of this person');
  await page.getByRole('button', { name: 'Add it' }).click();
  await page.getByText('password is not your password.').waitFor();
  await page.getByLabel('Your password').fill(user.password);
  await page.getByRole('button', { name: 'Add it' }).click();
  await page.getByText('The passkey was added.').waitFor();
  await page.getByRole('button', { name: 'Change the passkey Laptop of Ada' }).waitFor();
  expect(await violations(page)).toEqual([]);
  await screenshot(page, 'passkeys-light');

  await page.getByRole('button', { name: 'Log out' }).click();
  await heading(page, 'Log in to agent-trust').waitFor();
  await page.goto('/console/audit?operation=createGate');
  await unlock(false);
  await page.getByRole('button', { name: 'Use a passkey' }).click();
  await page.getByRole('alert').getByText('No passkey was used').waitFor();
  expect(await violations(page)).toEqual([]);
  await screenshot(page, 'login-passkey-light');
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
