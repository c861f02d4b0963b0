import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { fencedBlock } from '../support/data/verify-example.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';
import { startRecorder, startSessionServer, text } from './support/mcp-servers.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** `agent-trust guard-mcp` as it is installed: the compiled program. */
const server = fileURLToPath(new URL('support/stdio-server.mjs', import.meta.url));

const page = readFileSync(new URL('../../docs/integrations/mcp.md', import.meta.url), 'utf8');

let service: ClientService;
let programs: Programs;
let script: string;
let gate: string;
let passport: string;
let folder: ReturnType<typeof temporaryFolder>;
let env: Readonly<Record<string, string>>;
let runs = 0;
let file: string;

beforeAll(async () => {
  [service, programs] = await Promise.all([startClientService(), bundledPrograms()]);
  script = join(await sharedService('bundle'), 'deploy/agent-trust.js');
  folder = temporaryFolder();
  const constraints = { spend_limits: { per_transaction_usd: 10, unpriced: 'permit' as const } };
  gate = (await service.agentTrust.gates.create({ name: 'Command', trust_level: 'L1', constraints })).gate_id;
  const permissions = ['tools:pay', 'tools:count', 'tools:die'];
  passport = (await service.agentTrust.passports.issue({ agent_id: 'command', permissions })).jwt ?? '';
  await service.testSidecar.caughtUp();
});
afterAll(async () => {
  folder.remove();
  await service.close();
});
beforeEach(() => {
  file = join(folder.path, `run-${++runs}`);
  writeFileSync(file, '');
  env = {
    PATH: process.env['PATH'] ?? '',
    AGENT_TRUST_API_KEY: service.api.adminKey,
    AGENT_TRUST_PASSPORT: passport,
    FILE: file,
    LOG_LEVEL: 'info',
  };
});

const serviceOptions = () => [
  '--gate',
  gate,
  '--sidecar',
  service.testSidecar.origin,
  '--control-plane',
  service.url,
];
const noted = () => readFileSync(file, 'utf8').trim().split('\n');
const args = (...options: string[]) => [
  script,
  'guard-mcp',
  ...serviceOptions(),
  ...options,
  '--',
  process.execPath,
  server,
];
const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const pidAfter = (word: string) =>
  Number(
    noted()
      .find((line) => line.startsWith(`${word} `))
      ?.split(' ')[1],
  );

/** The proxy with its pipes, for what no client of an SDK would send. */
const start = (options: readonly string[] = [], more: Record<string, string> = {}) =>
  startWith(args(...options), { ...env, ...more });

function startWith(words: readonly string[], environment: Readonly<Record<string, string>>) {
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, words, { env: environment });
  const out: string[] = [];
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (data: string) => out.push(data));
  child.stderr.setEncoding('utf8').on('data', (data: string) => {
    errors += data;
  });
  const exited = once(child, 'close') as Promise<[number | null, string | null]>;
  return {
    child,
    exited,
    send: (...lines: readonly (object | string)[]) =>
      child.stdin.write(
        lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''),
      ),
    // biome-ignore lint/suspicious/noExplicitAny: messages are inspected member by member
    messages: (): any[] =>
      out
        .join('')
        .split('\n')
        // What comes after the last end of a line may be half of one.
        .slice(0, -1)
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    errors: () => errors,
  };
}
const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
};
const call = (id: number, name: string, amount = 1) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: { amount } },
});

describe('before a program', () => {
  it('guards it for a client of SDK 1.x, and for one of SDK 2.x', async () => {
    writeFileSync(join(folder.path, 'amounts.json'), '{"pay": "/amount", "read": 0.5}');
    const options = {
      command: process.execPath,
      args: args('--amounts', join(folder.path, 'amounts.json')),
      env,
    };
    const first = new Client({ name: 'agent', version: '1' });
    await first.connect(
      new StdioClientTransport({ ...options, stderr: 'ignore' }) as Parameters<Client['connect']>[0],
    );
    const second = new ClientV2({ name: 'agent', version: '1' });
    await second.connect(new StdioV2({ ...options, stderr: 'ignore' }));
    for (const client of [first, second] as readonly Pick<Client, 'callTool' | 'listTools'>[]) {
      expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['pay', 'die', 'count']);
      expect(await client.callTool({ name: 'pay', arguments: { amount: 5 } })).toMatchObject(text('pay'));
      for (const refused of [
        { name: 'pay', arguments: { amount: 11 } },
        { name: 'read', arguments: {} },
      ]) {
        expect(await client.callTool(refused)).toMatchObject({ isError: true });
      }
    }
    await first.close();
    await second.close();
    expect(noted().filter((word) => word === 'pay' || word === 'read')).toEqual(['pay', 'pay']);
    // Without the keys of this service in its environment.
    expect(noted()[0]).toMatch(/^started \d+ 0$/);
  });

  it('lets no call slip by, writes messages alone to standard output, and ends with its input', async () => {
    const proxy = start();
    proxy.send(initialize, { jsonrpc: '2.0', method: 'notifications/initialized' });
    const hidden = JSON.stringify(call(9, 'read'));
    proxy.send(
      `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"read"}}`,
      `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read"}}`,
      `{"jsonrpc":"2.0","id":2,"method":"ping","params":\r${hidden}\r}`,
      'no JSON',
      '',
      `x${'x'.repeat(4 * 1024 * 1024)}`,
      [call(3, 'read'), call(4, 'read')],
      call(5, 'pay'),
    );
    await until(() => proxy.messages().some(({ id }) => id === 5), {
      what: 'the answer to the last message',
    });
    const answers = proxy.messages().flat();
    // The first one under its id, the two lines that are no JSON under none. A notification gets no answer.
    expect(answers.filter(({ error }) => error !== undefined).map(({ id }) => id)).toEqual([1, null, null]);
    expect(answers.filter(({ id }) => id === 3 || id === 4).map(({ result }) => result.isError)).toEqual([
      true,
      true,
    ]);
    expect(answers.find(({ id }) => id === 2).result).toEqual({});
    expect(answers.find(({ id }) => id === 5)).toMatchObject({ result: text('pay') });
    expect(noted().slice(2)).toEqual(['pay']);
    await until(() => proxy.errors().includes('a line for people'), { what: 'the line for people' });
    expect(proxy.errors()).not.toContain(passport);
    proxy.child.stdin.end();
    expect(await proxy.exited).toEqual([0, null]);
    expect(isAlive(pidAfter('started'))).toBe(false);
  });

  it('is started by the configuration of its page, and reads the passport file again when it changes', async () => {
    const path = join(folder.path, 'agent.jwt');
    const configuration = JSON.parse(fencedBlock(page, 'json'));
    expect(Object.keys(configuration.env)).toEqual(['AGENT_TRUST_API_KEY', 'AGENT_TRUST_PASSPORT_FILE']);
    const shown: Readonly<Record<string, string>> = {
      'gate_…': gate,
      node: process.execPath,
      'server.mjs': server,
    };
    const [, command, ...words]: readonly string[] = configuration.args;
    const proxy = startWith(
      [script, command ?? '', ...serviceOptions().slice(2), ...words.map((word) => shown[word] ?? word)],
      { ...env, AGENT_TRUST_PASSPORT: '', AGENT_TRUST_PASSPORT_FILE: path },
    );
    proxy.send(initialize, { jsonrpc: '2.0', method: 'notifications/initialized' }, call(1, 'pay'));
    const answer = (wanted: number) => proxy.messages().find(({ id }) => id === wanted);
    await until(() => answer(1) !== undefined, { what: 'the first answer' });
    expect(answer(1).result._meta['agent-trust/decision'].reason).toBe('passport_missing');
    writeFileSync(`${path}.new`, `${passport}\n`);
    renameSync(`${path}.new`, path);
    proxy.send(call(2, 'pay'));
    await until(() => answer(2) !== undefined, { what: 'the second answer' });
    expect(answer(2)).toMatchObject({ result: text('pay') });
    proxy.child.stdin.end();
    await proxy.exited;
  });

  it('ends the whole process group of one that does not end by itself', async () => {
    const proxy = start([], { STUBBORN: '1' });
    await until(() => noted().includes('ready'), { what: 'the server' });
    const pids = [pidAfter('started'), pidAfter('child')];
    expect(pids.map(isAlive)).toEqual([true, true]);
    proxy.child.kill('SIGTERM');
    expect(await proxy.exited).toEqual([0, null]);
    expect(noted()).toContain('SIGTERM');
    await until(() => !pids.some(isAlive), { what: 'the group to be gone' });
  });

  it('ends with 1 where the server does by itself, and where there is none', async () => {
    const proxy = start();
    proxy.send(initialize, { jsonrpc: '2.0', method: 'notifications/initialized' }, call(1, 'die'));
    expect(await proxy.exited).toEqual([1, null]);
    expect(proxy.errors()).toContain('has ended by itself');
    const none = programs.start(['guard-mcp', ...serviceOptions(), '--', '/nowhere/at/all'], env);
    expect(await none.exited).toBe(1);
    expect(none.output()).toMatch(/cannot be started: .*ENOENT/);
  });
});

describe('before a server over HTTP', () => {
  it('guards it by the words of its page, says where, and stops in order with a stream open', async () => {
    const upstream = await startSessionServer();
    const port = await freePort();
    const words = fencedBlock(page, 'sh').trim().split(' ').slice(1);
    const shown: Readonly<Record<string, string>> = {
      'gate_…': gate,
      'http://127.0.0.1:3000/mcp': upstream.url.href,
    };
    const own = [
      '--sidecar',
      service.testSidecar.origin,
      '--control-plane',
      service.url,
      '--port',
      String(port),
    ];
    const proxy = programs.start([...words.map((word) => shown[word] ?? word), ...own], env);
    await proxy.waitFor(/ at http/);
    expect(proxy.stdout()).toBe(
      `agent-trust guards ${upstream.url.origin} at http://127.0.0.1:${port}/mcp\n`,
    );
    const client = new Client({ name: 'agent', version: '1' });
    const headers = { 'x-agent-passport': passport };
    const url = new URL(`http://127.0.0.1:${port}/mcp`);
    const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
    await client.connect(transport as Parameters<Client['connect']>[0]);
    expect(await client.callTool({ name: 'pay', arguments: {} })).toMatchObject(text('pay'));
    expect(await client.callTool({ name: 'read', arguments: {} })).toMatchObject({ isError: true });
    // Over HTTP the passport of the environment is nobody's.
    const bare = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(call(1, 'pay')),
    });
    expect(JSON.stringify(await bare.json())).toContain('passport_missing');
    expect(await proxy.stop()).toBe(0);
    await client.close();
    await upstream.close();
  });

  it('says at its start what of key, gate and server is wrong', async () => {
    const { agentTrust } = service;
    const mcp = await startSessionServer();
    const html = await startRecorder((_, response) => response.writeHead(200).end('<html>'));
    const absent = await startRecorder((_, response) => response.writeHead(404).end());
    const elsewhere = await startRecorder((_, response) =>
      response.writeHead(307, { location: 'https://shop.example/mcp/' }).end(),
    );
    const { key: scopeless = '' } = await agentTrust.apiKeys.create({
      name: 'reader',
      scopes: ['gates:read'],
    });
    const revoked = await agentTrust.apiKeys.create({ name: 'gone', scopes: ['enforcement:check'] });
    await agentTrust.apiKeys.delete(revoked.key_id);
    await service.testSidecar.caughtUp();
    const own = serviceOptions();
    const guarding = (upstream: URL, more: Record<string, string> = {}, words = own) =>
      programs.start(['guard-mcp', ...words, '--port', '0', '--upstream', upstream.href], {
        ...env,
        ...more,
      });
    const other = `gate_${'0'.repeat(26)}`;
    const free = new URL(`http://127.0.0.1:${await freePort()}/mcp`);
    const since = new Date().toISOString();
    const started: readonly (readonly [ReturnType<typeof guarding>, RegExp])[] = [
      [guarding(mcp.url, { AGENT_TRUST_API_KEY: revoked.key ?? '' }), /refuses the API key/],
      [guarding(mcp.url, { AGENT_TRUST_API_KEY: scopeless }), /lacks the scope enforcement:check/],
      [guarding(mcp.url, {}, ['--gate', other, ...own.slice(2)]), new RegExp(`there is no gate ${other}`)],
      [guarding(html.url), /no MCP server answers there \(HTTP 200\)/],
      [guarding(absent.url), /no MCP server answers there \(HTTP 404\)/],
      [guarding(elsewhere.url), /redirects elsewhere: --upstream https:\/\/shop\.example\/mcp\//],
      [guarding(free), /The MCP server cannot be reached\. ECONNREFUSED/],
    ];
    for (const [program, message] of started) {
      expect(await program.exited, program.output()).toBe(1);
      expect(program.output()).toMatch(message);
      expect(program.output().trim().split('\n')).toHaveLength(1);
    }
    // Before a program, too: nothing is started for a gate that is not there.
    const local = programs.start(
      ['guard-mcp', '--gate', other, ...own.slice(2), '--', process.execPath, server],
      env,
    );
    expect(await local.exited).toBe(1);
    expect(local.output()).toMatch(/there is no gate/);
    expect(readFileSync(file, 'utf8')).toBe('');
    // Those of earlier tests may arrive meanwhile.
    const { attestations } = await agentTrust.attestations.list({ limit: 500 });
    expect(attestations.filter(({ timestamp }) => timestamp >= since)).toEqual([]);
    await Promise.all([mcp, html, absent, elsewhere].map((each) => each.close()));
  });

  it('ends with one sentence for a gate that is unknown, also while the sidecar is away', async () => {
    const away = `http://127.0.0.1:${await freePort()}`;
    const words = ['--gate', `gate_${'0'.repeat(26)}`, '--sidecar', away, '--control-plane', service.url];
    const program = programs.start(['guard-mcp', ...words, '--', process.execPath, server], env);
    expect(await program.exited, program.output()).toBe(1);
    expect(program.output().trim().split('\n')).toEqual([
      expect.stringMatching(/^agent-trust: there is no gate/),
    ]);
    const own = ['--gate', gate, '--sidecar', service.url, '--control-plane', service.url];
    const elsewhere = programs.start(['guard-mcp', ...own, '--', process.execPath, server], env);
    expect(await elsewhere.exited, elsewhere.output()).toBe(1);
    expect(elsewhere.output().trim()).toMatch(
      /^agent-trust: .* --sidecar takes a sidecar of this version\.$/,
    );
    expect(readFileSync(file, 'utf8')).toBe('');
  });

  it('starts before a sidecar and a server that start later', async () => {
    const port = await freePort();
    const sidecarPort = await freePort();
    const words = [
      '--gate',
      gate,
      '--sidecar',
      `http://127.0.0.1:${sidecarPort}`,
      '--control-plane',
      service.url,
    ];
    const upstream = `http://127.0.0.1:${port}/mcp`;
    const proxy = programs.start(['guard-mcp', ...words, '--port', '0', '--upstream', upstream], env);
    await proxy.waitFor(/key and gate are not checked yet/);
    const late = createServer((_, response) => response.writeHead(400).end()).listen(port, '127.0.0.1');
    await proxy.waitFor(/ at http/);
    expect(await proxy.stop()).toBe(0);
    late.close();
  });

  it.each<[what: string, message: RegExp, ...words: string[]]>([
    ['no server', /name the MCP server once/],
    ['two servers', /name the MCP server once/, '--upstream', 'http://127.0.0.1:1/mcp', '--', 'x'],
    ['all addresses without names', /needs --allow-host/, '--upstream', 'http://a/mcp', '--host', '0.0.0.0'],
    ['a passport for all', /each request shows/, '--upstream', 'http://a/mcp', '--passport-file', 'x'],
    ['a sidecar that is none', /It is an origin/, '--sidecar', '127.0.0.1:8090', '--', 'x'],
    ['amounts that are missing', /--amounts \/nowhere cannot be read/, '--amounts', '/nowhere', '--', 'x'],
  ])('names the fault: %s', async (_what, message, ...words) => {
    const program = programs.start(['guard-mcp', ...serviceOptions(), ...words], env);
    expect(await program.exited).toBe(2);
    expect(program.output()).toMatch(message);
  });
});
