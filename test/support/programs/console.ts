import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { readConsole } from '../../../control-plane/console/served-file.ts';
import type { IdentityProviderSettings } from '../../../control-plane/oidc/identity-provider.ts';
import type { Role } from '../../../shared/model/user.ts';
import { freePort } from '../base/free-port.ts';
import { until, untilAnswer } from '../base/until.ts';
import { sharedService } from '../run/shared-services.ts';
import { type Api, type ApiOptions, type LoggedIn, startOwnApi } from '../service/api.ts';
import { startBrowser } from './browser.ts';

/** Looked at by people; in no commit. */
const screenshots = fileURLToPath(new URL('../../../console/screenshots/', import.meta.url));

const wide = { width: 1280, height: 900 };
const phone = { width: 360, height: 740 };

interface WindowOptions {
  readonly isPhone?: boolean;
  /** Logged in as somebody with this role, or as this person. Default: nobody is logged in. */
  readonly role?: Role;
  readonly user?: LoggedIn;
}

/** A browser before a console that somebody else serves. */
export interface OpenConsole {
  readonly browser: Browser;
  readonly origin: string;
  /** A window of its own, at the width of a desk or of a phone. Each has its own cookies. */
  open(options?: Omit<WindowOptions, 'role'>): Promise<Page>;
  close(): Promise<void>;
}

/** A control plane with the built console, and a browser before it. */
export interface TestConsole extends Omit<OpenConsole, 'open'> {
  readonly api: Api;
  open(options?: WindowOptions): Promise<Page>;
}

interface ConsoleOptions extends Omit<ApiOptions, 'origin' | 'provider' | 'consoleFiles'> {
  /** The identity provider that sends people back to this origin. */
  readonly provider?: (origin: string) => Promise<IdentityProviderSettings>;
}

/** It is reached as `localhost`, the one name without https for which browsers keep passkeys. */
export async function startConsole({ provider, ...options }: ConsoleOptions = {}): Promise<TestConsole> {
  const consoleFiles = await readConsole(await sharedService('console'));
  const port = await freePort();
  const origin = `http://localhost:${port}`;
  const settings = await provider?.(origin);
  const api = await startOwnApi({
    ...options,
    ...(settings === undefined ? {} : { provider: settings }),
    origin,
    consoleFiles,
  });
  await api.app.listen({ host: '127.0.0.1', port });
  const opened = await openConsole(origin);
  return {
    ...opened,
    api,
    open: async ({ role, user, ...options } = {}) => {
      const person = user ?? (role === undefined ? undefined : await api.createUser({ role }));
      return opened.open({ ...options, ...(person === undefined ? {} : { user: person }) });
    },
    close: async () => {
      await opened.close();
      await api.close();
    },
  };
}

/**
 * The console that all tests of a file, or of a `describe`, share: it is filled in before the first of them,
 * and closed after the last.
 */
export function sharedConsole(options: ConsoleOptions = {}): TestConsole {
  const world = {} as TestConsole;
  beforeAll(async () => {
    Object.assign(world, await startConsole(options));
  });
  afterAll(() => world.close?.());
  return world;
}

export async function openConsole(origin: string): Promise<OpenConsole> {
  const browser = await startBrowser();
  return {
    browser,
    origin,
    open: async ({ isPhone = false, user } = {}) => {
      const context = await browser.newContext({
        baseURL: origin,
        viewport: isPhone ? phone : wide,
        colorScheme: 'light',
        reducedMotion: 'reduce',
        permissions: ['clipboard-read', 'clipboard-write'],
      });
      // How fast a machine is says nothing about the page.
      context.setDefaultTimeout(60_000);
      if (user !== undefined) await context.addCookies(cookiesOf(user));
      return watched(await context.newPage());
    },
    close: () => browser.close(),
  };
}

/** The session of a person, as their browser keeps it: for every port of a safe address. */
function cookiesOf({ headers }: LoggedIn): Parameters<BrowserContext['addCookies']>[0] {
  const url = 'https://localhost';
  return (headers['cookie'] ?? '').split('; ').map((pair) => {
    const [name = '', value = ''] = pair.split('=');
    return { name, value, url, secure: true, httpOnly: true, sameSite: 'Strict' };
  });
}

/** From now on the page is at the width of a phone or of a desk, in the dark or in the light. */
async function show(page: Page, how: Pick<Look, 'isPhone' | 'isDark'>): Promise<void> {
  await page.setViewportSize(how.isPhone ? phone : wide);
  await page.emulateMedia({ colorScheme: how.isDark ? 'dark' : 'light', reducedMotion: 'reduce' });
}

interface Look {
  readonly isDark: boolean;
  readonly isPhone: boolean;
  /** Of axe; default: all. */
  readonly rules?: readonly string[];
}

/** What can differ in the dark, and what can differ on a phone; the elements are the same ones. */
const looks: Readonly<Record<string, Look>> = {
  dark: { isDark: true, isPhone: false, rules: ['color-contrast'] },
  phone: { isDark: false, isPhone: true, rules: ['target-size', 'scrollable-region-focusable'] },
  light: { isDark: false, isPhone: false },
};

/** What is wrong with the page that is open, in each look; in the end it is shown at a desk in the light. */
export async function faultsOf(page: Page, name: string): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const [look, { rules, ...how }] of Object.entries(looks)) {
    await show(page, how);
    await screenshot(page, `${name}-${look}`);
    faults.push(...(await violations(page, rules)).map((fault) => `${look}: ${fault}`));
  }
  return faults;
}

/** The page can be read in light and dark, and fits a phone. */
export async function looksGood(page: Page, name: string): Promise<void> {
  expect(await faultsOf(page, name)).toEqual([]);
}

/** Gives the browser of this page an authenticator, whose person unlocks it at once or never. */
export async function giveAuthenticator(page: Page): Promise<{ unlock(isUnlocked: boolean): Promise<void> }> {
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      ...{ protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true },
      ...{ isUserVerified: true, automaticPresenceSimulation: true },
    },
  });
  return {
    unlock: async (isUserVerified) => {
      await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified });
    },
  };
}

/** The password of everybody who joins by a link here. */
export const password = 'a sentence that is easy to remember';

/** Accepts an invitation as a person does it on the page. */
export async function join(page: Page, path: string, { email }: { email?: string } = {}): Promise<void> {
  await page.goto(`/console${path}`);
  await page.getByLabel('Your name').fill('Ada');
  if (email !== undefined) await page.getByLabel('Your email').fill(email);
  await page.getByLabel('Choose a password').fill(password);
  await page.getByRole('button', { name: 'Join' }).click();
  await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
}

/** What each page has reported as wrong, such as an exception or a broken policy. */
const reported = new WeakMap<Page, string[]>();

function watched(page: Page): Page {
  const faults: string[] = [];
  reported.set(page, faults);
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    // The browser itself reports refused requests; what they mean is on the page.
    const isRefusal = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isRefusal) faults.push(message.text());
  });
  return page;
}

/** What this page has reported as wrong so far: exceptions, and what its policy refused. */
export const reportsOf = (page: Page): readonly string[] => reported.get(page) ?? [];

interface AxeResult {
  readonly id: string;
  readonly nodes: readonly string[];
}

/**
 * What is wrong with the page as it is now: errors that it reported, and what axe finds by all of its rules
 * or by these.
 */
export async function violations(
  page: Page,
  rules?: readonly string[] | undefined,
): Promise<readonly string[]> {
  // Past the policy of the page, which lets no script in: this one is evaluated by the debugger.
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe.source);
  const options = { resultTypes: ['violations'], ...(rules === undefined ? {} : { runOnly: rules }) };
  const found = await page.evaluate<readonly AxeResult[]>(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html }) => html) })))`,
  );
  const broken = found.map(({ id, nodes }) => `${id}: ${nodes.join(' | ')}`);
  return [...reportsOf(page), ...broken, ...(await overflow(page))];
}

/** A page that is wider than its window has to be scrolled sideways. */
async function overflow(page: Page): Promise<string[]> {
  const excess = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
  return excess > 0 ? [`the page is ${excess} px wider than its window`] : [];
}

/** Opens an address of the console, and resolves when all that it shows has been loaded. */
export async function visit(page: Page, path: string): Promise<void> {
  await page.goto(`/console${path}`);
  await settled(page);
}

/**
 * As `visit`, from inside of the console that is open, as a link does it: nothing of it is loaded anew.
 */
export async function follow(page: Page, path: string): Promise<void> {
  const isShown = `(async () => {
    const router = __TSR_ROUTER__;
    await router.navigate({ href: ${JSON.stringify(`/console${path}`)} });
    while (router.state.resolvedLocation?.href !== router.state.location.href) {
      await new Promise(requestAnimationFrame);
    }
  })()`;
  await page.evaluate(isShown);
  // A page that could not be shown has no title to wait for.
  await page.locator('h1, [role=alert]').first().waitFor();
  if ((await page.locator('h1').count()) === 0) throw new Error(`${path}: ${await page.innerText('main')}`);
  if (!page.url().endsWith(`/console${path}`)) throw new Error(`${path} led to ${page.url()}`);
  await settled(page);
}

/** What the click of this button copies: the page may be told of the click before it is in the clipboard. */
export async function copiedBy(page: Page, button: Locator): Promise<string> {
  await page.evaluate("navigator.clipboard.writeText('')");
  await button.click();
  const read = () => page.evaluate<string>('navigator.clipboard.readText()');
  return untilAnswer(read, (text) => text !== '', { what: 'something in the clipboard' });
}

/** Resolves when the page has its title and waits for nothing. */
async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  // Not by a function of Playwright that runs in the page: its policy forbids that.
  const isWaiting = () => page.evaluate<boolean>("document.querySelector('[data-waiting]') !== null");
  await until(async () => !(await isWaiting()), { what: `${page.url()} to be loaded` });
}

/** Of Chromium. The contract is longer. */
const pictureHeightMax = 16_384;

/** Written only where a person wants to look: `SCREENSHOTS=1`. */
export async function screenshot(page: Page, name: string): Promise<void> {
  if (process.env['SCREENSHOTS'] !== '1') return;
  const height = await page.evaluate<number>('document.documentElement.scrollHeight');
  if (height > pictureHeightMax) return;
  await mkdir(screenshots, { recursive: true });
  await page.screenshot({ path: `${screenshots}${name}.png`, fullPage: true });
}
