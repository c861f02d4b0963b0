import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page, Response } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Document, Schema } from '../../control-plane/openapi/document.ts';
import { until } from '../support/base/until.ts';
import { inlined, operationsOf } from '../support/data/document.ts';
import { follow, reportsOf, sharedConsole, visit } from '../support/programs/console.ts';
import { goodCalls } from '../support/service/good-calls.ts';

/** Markup that shows by an element that it was read as such, and a script where it is read as an address. */
const hostile = (number: number): string => `javascript:0//"'><i data-planted="">planted${number}</i>`;
const wasRead = 'document.querySelector(\'[data-planted], a[href^="javascript:" i]\') !== null';

const document = JSON.parse(
  readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'),
) as Document;

/**
 * The ways to every text that a body may hold, such as `permissions.[].key`; `*` is any other member. Text
 * of which the schema says the form, other than that it is plain, cannot be hostile.
 */
function textsIn(schema: Schema, way: readonly string[] = []): readonly (readonly string[])[] {
  const { type, anyOf, items, properties, additionalProperties, pattern } = schema as Readonly<
    Record<string, never>
  >;
  const types: readonly string[] = [type ?? []].flat();
  const isFree = !('enum' in schema || 'const' in schema || 'format' in schema);
  const isPlain = pattern === undefined || String(pattern).startsWith('^[^');
  return [
    ...(types.includes('string') && isFree && isPlain ? [way] : []),
    ...((anyOf ?? []) as Schema[]).flatMap((each) => textsIn(each, way)),
    ...(items === undefined ? [] : textsIn(items, [...way, '[]'])),
    ...Object.entries((properties ?? {}) as Record<string, Schema>).flatMap(([name, each]) =>
      textsIn(each, [...way, name]),
    ),
    ...(additionalProperties ? [[...way, '*']] : []),
  ];
}

/** The body with this text at the end of this way. */
function planted(body: unknown, [name, ...rest]: readonly string[], text: string): unknown {
  if (name === undefined) return text;
  if (name === '[]') {
    const [first, ...others] = Array.isArray(body) ? body : [];
    return [planted(first, rest, text), ...others];
  }
  const members = typeof body === 'object' && body !== null && !Array.isArray(body) ? body : {};
  const key = name === '*' ? text : name;
  return { ...members, [key]: planted((members as Record<string, unknown>)[key], rest, text) };
}

const world = sharedConsole();

/** Sends each text of each operation once. Returns the number of each that was accepted, by its name. */
async function plantEverywhere(): Promise<ReadonlyMap<string, number>> {
  const { api } = world;
  const calls = goodCalls(api);
  const accepted = new Map<string, number>();
  let number = 0;
  for (const { operation, path } of operationsOf(document)) {
    // What somebody types to log in is kept nowhere.
    if (path.startsWith('/v1/session')) continue;
    const schema = operation.requestBody?.content['application/json']?.schema;
    const good = calls[operation.operationId];
    if (schema === undefined || good === undefined) continue;
    for (const [name, way] of new Map(
      textsIn(inlined(document, schema)).map((each) => [each.join('.'), each]),
    )) {
      number += 1;
      // Endpoints of webhooks are made in accounts of their own; here they must be seen.
      const { key, ...own } = await good();
      const call = operation.operationId === 'createWebhook' || key === undefined ? own : { ...own, key };
      const { status } = await api.call({ ...call, body: planted(call.body, way, hostile(number)) });
      if (status < 300) accepted.set(`${operation.operationId} ${name}`, number);
    }
  }
  return accepted;
}

/** One thing of each kind whose page shows more than its list, with this text wherever text may be. */
async function plantDeeply(text: string): Promise<readonly string[]> {
  const { api } = world;
  const post = async (url: string, body: object) => (await api.call({ url: `/v1${url}`, body })).body;
  const gate = await post('/gates', {
    ...{ name: text, description: text, trust_level: 'L1', constraints: { approvals: { above_usd: 1 } } },
    catalog: {
      permissions: [{ key: 'orders:create', display_name: text, description: text, category: 'orders' }],
    },
  });
  const words = { agent_name: text, metadata: { [text]: text } };
  const agent = await api.issuePassport({ agent_id: text, ...words });
  const ended = await api.issuePassport({ agent_id: `${text} too`, ...words });
  await post(`/passports/${ended.passport_id}/revoke`, { reason: text });
  const ask = (amount: number) =>
    post(`/gates/${gate.gate_id}/check`, {
      passport: agent.jwt,
      request: { permission_key: 'orders:create', amount, [text]: text },
    });
  const { approval_id: waiting } = await ask(5);
  const { approval_id: denied } = await ask(6);
  await post(`/approvals/${denied}/deny`, { note: text });
  const { attestation_id: record } = await ask(0.5);
  const { webhook_id: hook } = await post('/webhooks', {
    ...{ url: 'https://hooks.example.com/deep', events: ['gate.created'], description: text },
  });
  const { channel_id: channel } = await post('/channels', {
    ...{ name: text, kind: 'webhook', target: 'https://hooks.example.com/deep' },
  });
  return [
    ...['', '?tab=policy', '?tab=catalog', '?tab=try', '?tab=json'].map(
      (tab) => `/gates/${gate.gate_id}${tab}`,
    ),
    ...['', '?tab=chain', '?tab=json'].map((tab) => `/passports/${ended.passport_id}${tab}`),
    ...[`/approvals/${waiting}`, `/approvals/${denied}`, `/attestations/${record}`, `/webhooks/${hook}`],
    `/channels/${channel}`,
  ];
}

describe('text of strangers', () => {
  it('is text on every page, whichever field of the API it came through', async () => {
    const accepted = await plantEverywhere();
    const pages = await plantDeeply(hostile(0));
    const page = await world.open({ role: 'owner' });
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).origin));
    await visit(page, '/');
    let read = '';
    const look = async (path: string) => {
      await follow(page, path);
      expect(await page.evaluate(wasRead), path).toBe(false);
      read += await page.locator('body').innerText();
      read += await page.evaluate<string>(
        "[...document.querySelectorAll('textarea, input')].map((each) => each.value).join(' ')",
      );
    };
    for (const path of [...lists, ...pages]) await look(path);

    expect(read).toContain(hostile(0));
    const shown = [...accepted]
      .filter(([, number]) => read.includes(hostile(number)))
      .map(([field]) => field);
    expect(shown).toEqual(expect.arrayContaining([...mustBeShown]));
    expect(reportsOf(page)).toEqual([]);
    expect(new Set(asked)).toEqual(new Set([world.origin]));

    // The look notices it where text was read as markup.
    await page.evaluate(
      "document.body.appendChild(document.createElement('i')).setAttribute('data-planted', '')",
    );
    expect(await page.evaluate(wasRead)).toBe(true);
  });
});

/** Some that people read. Long lists show only their newest; what is deep is planted once more. */
const mustBeShown = [
  ...['approveApproval note', 'createApiKey name', 'createIssuer name', 'createTemplate description'],
  'createChannel name',
  ...['createTemplate name', 'createWebhook description', 'inviteUser name', 'issuePassport agent_name'],
];

const lists = [
  ...['/', '/approvals', '/approvals?status=approved', '/approvals?status=denied', '/passports', '/gates'],
  ...[
    '/attestations',
    '/api-keys',
    '/channels',
    '/webhooks',
    '/audit',
    '/issuers',
    '/mcp-pins',
    '/holds',
    '/templates',
    '/people',
    '/settings',
  ],
  ...['/approvals/standing', '/gates?new=1', '/passports?new=1', '/discovery?capability=orders'],
];

describe('a page of another site', () => {
  let elsewhere: Server;
  let page: Page;
  let body = '';

  beforeAll(async () => {
    elsewhere = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end(body);
    });
    await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
    page = await world.open({ role: 'owner' });
  });
  afterAll(() => {
    elsewhere?.close();
  });

  /** On another port: another origin, and yet the same site, whose requests carry the session's cookie. */
  const openElsewhere = async (html: string) => {
    body = html;
    await page.goto(`http://localhost:${(elsewhere.address() as AddressInfo).port}/`);
  };

  it('cannot frame the console', async () => {
    for (const path of ['/console/', '/console/approvals', '/console/invitation']) {
      await openElsewhere(`<iframe src="${world.origin}${path}"></iframe>`);
      const isRefused = () => page.frames()[1]?.url() === 'chrome-error://chromewebdata/';
      await until(isRefused, { what: `no frame with ${path}` });
    }
    await openElsewhere(`<iframe src="${new URL('/', page.url())}"></iframe>`);
    await until(() => page.frames()[1]?.url() === page.url(), { what: 'a frame of its own' });
  });

  it('changes nothing by its requests, and reads nothing', async () => {
    const gates = async () => (await world.api.call({ url: '/v1/gates' })).body.total;
    const before = await gates();
    await openElsewhere('');
    const cookies: (string | undefined)[] = [];
    world.api.app.server.on('request', ({ method, headers }) => {
      if (method === 'POST') cookies.push(headers.cookie);
    });
    const isAnswer = (response: Response) => response.url() === `${world.origin}/v1/gates`;
    const attempt = (options: string) =>
      page.evaluate<string>(
        `fetch('${world.origin}/v1/gates', { method: 'POST', credentials: 'include', body: '{"name":"Forged","trust_level":"L1"}', ${options} }).then(() => 'sent', () => 'refused')`,
      );
    const [plain, outcome] = await Promise.all([
      page.waitForResponse(isAnswer),
      attempt("mode: 'no-cors', headers: { 'content-type': 'text/plain' }"),
    ]);
    expect([outcome, plain.status()]).toEqual(['sent', 403]);
    // The cookie went with it, so that only the proof of our own pages refused it.
    expect(cookies.join()).toContain('__Host-agent_trust_session=');
    const json = "headers: { 'content-type': 'application/json', 'x-agent-trust-console': '1' }";
    expect(await attempt(json)).toBe('refused');
    const read = `fetch('${world.origin}/v1/gates', { credentials: 'include' }).then(() => 'read', () => 'refused')`;
    expect(await page.evaluate(read)).toBe('refused');
    const form = `<form method="post" enctype="text/plain" action="${world.origin}/v1/gates"><input name='{"name":"Forged","trust_level":"L1","x":"' value='"}'></form>`;
    await openElsewhere(form);
    const [answer] = await Promise.all([
      page.waitForResponse(isAnswer),
      page.evaluate('document.forms[0].submit()'),
    ]);
    expect(answer.status()).toBe(403);
    expect(await gates()).toBe(before);
  });
});

describe('a login', () => {
  it.each(['//evil/', '/\\evil/', '/?redirect=https://evil/'])(
    'leads to the console and nowhere else: /console%s',
    async (path) => {
      const { email, password } = await world.api.createUser();
      const page = await world.open();
      const left: string[] = [];
      page.on('request', (request) => left.push(new URL(request.url()).origin));
      await page.goto(`${world.origin}/console${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      if ((await page.getByLabel('Email').count()) === 1) {
        await page.getByLabel('Email').fill(email);
        await page.getByLabel('Password').fill(password);
        await page.getByRole('button', { name: 'Log in' }).click();
        await page.getByLabel('Password').waitFor({ state: 'detached' });
        await page.getByRole('heading', { level: 1 }).waitFor();
      }
      expect(new Set(left)).toEqual(new Set([world.origin]));
      expect(new URL(page.url()).origin).toBe(world.origin);
      await page.context().close();
    },
  );
});
