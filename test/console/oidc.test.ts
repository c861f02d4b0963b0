import { afterAll, beforeAll, expect, it } from 'vitest';
import { screenshot, show, startConsole, type TestConsole, violations } from '../support/console.ts';
import { startTestProvider, type TestProvider } from '../support/test-provider.ts';
import { until } from '../support/until.ts';

let provider: TestProvider;
let world: TestConsole;
beforeAll(async () => {
  world = await startConsole({
    provider: async (origin) => {
      provider = await startTestProvider({ origin });
      return provider.settings;
    },
  });
});
afterAll(async () => {
  await world?.close();
  await provider?.close();
});

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
  for (const isDark of [false, true]) {
    await show(page, { isPhone: false, isDark });
    expect(await violations(page)).toEqual([]);
    await screenshot(page, `login-oidc-${isDark ? 'dark' : 'light'}`);
  }
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
  await refused('No active user here has the address nobody@example.com.');
  for (const isDark of [false, true]) {
    await show(page, { isPhone: true, isDark });
    expect(await violations(page)).toEqual([]);
    await screenshot(page, `login-oidc-refused-${isDark ? 'dark' : 'light'}`);
  }
  await page.getByRole('link', { name: 'Back to the login' }).click();
  await page.getByRole('heading', { name: 'Log in to agent-trust' }).waitFor();
});
