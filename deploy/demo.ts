/**
 * `npm run demo`: a story played against the running service. A small orders API asks the sidecar before it
 * serves an agent; two agents order, are permitted and blocked; one is revoked in the middle of its work;
 * then an auditor, who trusts nobody here, checks the record offline.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { apiAccessOf, apiKeyHelp, commandSettings } from '../cli/base/api-access.ts';
import { CommandError } from '../cli/base/call-api.ts';
import { verifyAttestationsCommand } from '../cli/verify/verify-attestations.ts';
import { describeSettings, settingSourcesHelp } from '../shared/runtime/describe-settings.ts';
import { exitCode } from '../shared/runtime/exit-codes.ts';
import { originOf, SettingsError } from '../shared/runtime/settings.ts';
import {
  type Agent,
  type Answer,
  api,
  call,
  checkThatItRuns,
  DemoError,
  issuePassport,
  print,
  type Stage,
  title,
} from './demo-stage.ts';

interface Options {
  readonly url?: string;
  readonly sidecar?: string;
  readonly keyFile?: string;
}

async function stageOf(options: Options): Promise<Stage> {
  const { SIDECAR_HOST: host, SIDECAR_PORT: port } = commandSettings(process.env);
  const access = { origin: options.url ?? null, keyFile: options.keyFile ?? null };
  const { origin, key } = await apiAccessOf(process.env, access);
  return { url: origin, sidecarUrl: options.sidecar ?? originOf({ host, port }), adminKey: key };
}

async function play(stage: Stage): Promise<void> {
  title('1. A gate in front of an orders API');
  const gateId = await createGate(stage);
  const enforcementKey = await createEnforcementKey(stage);
  const shop = await startOrdersApi(stage, gateId, enforcementKey);
  try {
    title('2. Two agents with passports');
    const buyer = await issuePassport(stage, 'buyer', ['orders:create', 'orders:read']);
    const reader = await issuePassport(stage, 'reader', ['orders:read']);

    title('3. Orders, permitted and blocked');
    await playOrders(shop.address, buyer, reader);

    title('4. A revocation while requests flow');
    await revokeUnderLoad(stage, shop.address, buyer);
  } finally {
    await new Promise((resolve) => shop.server.close(resolve));
  }

  title('5. The auditor');
  await auditOffline(stage, gateId);
}

async function createGate(stage: Stage): Promise<string> {
  const gate = await api(stage, 'POST', '/gates', {
    name: 'Orders API',
    trust_level: 'L1',
    constraints: { allowed_domains: ['*.example.com'], spend_limits: { per_transaction_usd: 50 } },
  });
  const gateId = String(gate.body['gate_id']);
  print(`Gate ${gateId}: only *.example.com, at most 50 USD an order.`);
  return gateId;
}

async function createEnforcementKey(stage: Stage): Promise<string> {
  const answer = await api(stage, 'POST', '/api-keys', { name: 'orders API', scopes: ['enforcement:check'] });
  print(
    `The orders API gets a key of its own that can ask for decisions and nothing else (${answer.body['prefix']}…).`,
  );
  return String(answer.body['key']);
}

/**
 * The resource server: it serves an order only after the sidecar said PERMIT, and answers 403 with the reason
 * otherwise.
 */
async function startOrdersApi(
  stage: Stage,
  gateId: string,
  enforcementKey: string,
): Promise<{ readonly server: Server; readonly address: string }> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const order = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Record<string, unknown>;
      decide(order)
        .then((decision) => {
          const permitted = decision.status === 200 && decision.body['decision'] === 'PERMIT';
          response.writeHead(permitted ? 201 : 403, { 'content-type': 'application/json' });
          response.end(JSON.stringify(decision.body));
        })
        // No answer is no permission.
        .catch((error: unknown) => {
          response.writeHead(503, { 'content-type': 'application/json' });
          response.end(JSON.stringify({ decision: 'NONE', reason: String(error) }));
        });
    });

    const decide = (order: Record<string, unknown>): Promise<Answer> =>
      call(`${stage.sidecarUrl}/v1/gates/${gateId}/check`, 'POST', enforcementKey, {
        passport: String(request.headers['x-agent-passport'] ?? ''),
        request: {
          permission_key: request.method === 'GET' ? 'orders:read' : 'orders:create',
          amount: order['amount'],
          domain: order['ship_from'],
          item: order['item'],
        },
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/orders`;
  print(`The orders API listens at ${address} and asks the sidecar before it serves anybody.`);
  return { server, address };
}

async function playOrders(shop: string, buyer: Agent, reader: Agent): Promise<void> {
  const scenes = [
    { agent: buyer, order: { item: 'book', amount: 12.5, ship_from: 'shop.example.com' }, want: 'PERMIT' },
    {
      agent: reader,
      order: { item: 'book', amount: 12.5, ship_from: 'shop.example.com' },
      want: 'permission_not_granted',
    },
    {
      agent: buyer,
      order: { item: 'book', amount: 12.5, ship_from: 'shop.evil.test' },
      want: 'domain_not_allowed',
    },
    {
      agent: buyer,
      order: { item: 'desk', amount: 50.01, ship_from: 'shop.example.com' },
      want: 'spend_limit_exceeded',
    },
    { agent: buyer, order: { item: 'lamp', amount: 50, ship_from: 'shop.example.com' }, want: 'PERMIT' },
  ];
  for (const { agent, order, want } of scenes) {
    const answer = await placeOrder(shop, agent, order);
    const got = String(answer.body['reason'] ?? answer.body['decision']);
    print(
      `${agent.name} orders a ${order.item} for ${order.amount} USD from ${order.ship_from}: ` +
        `${answer.body['decision']}${answer.body['reason'] === null ? '' : ` (${got})`}, record ${answer.body['attestation_id']}`,
    );
    if (got !== want) throw new DemoError(`That should have been ${want}.`);
  }
}

/**
 * Orders flow without pause; the passport is revoked after the hundredth; what was asked more than 100 ms
 * later must be blocked.
 */
async function revokeUnderLoad(stage: Stage, shop: string, buyer: Agent): Promise<void> {
  const order = { item: 'pen', amount: 1, ship_from: 'shop.example.com' };
  let permitted = 0;
  let lastPermitBeganMs = 0;
  let revokedMs = Number.POSITIVE_INFINITY;
  let revocation: Promise<unknown> | null = null;
  let blocked = 0;
  while (blocked < 100) {
    const beganMs = performance.now();
    const answer = await placeOrder(shop, buyer, order);
    if (answer.body['decision'] === 'PERMIT') {
      permitted++;
      lastPermitBeganMs = beganMs;
    } else blocked++;
    if (permitted === 100 && revocation === null) {
      revocation = api(stage, 'POST', `/passports/${buyer.passportId}/revoke`, { reason: 'demo' }).then(
        () => {
          revokedMs = performance.now();
        },
      );
    }
    if (blocked === 0 && performance.now() > revokedMs + 5_000)
      throw new DemoError('The revocation did not take effect within 5 s.');
  }
  await revocation;
  const lagMs = Math.max(0, lastPermitBeganMs - revokedMs);
  print(`${permitted} orders were permitted, then ${blocked} blocked (passport_revoked).`);
  print(
    `The last permitted order began ${lagMs.toFixed(1)} ms after the revocation was answered; 100 ms is the promise.`,
  );
  if (lagMs > 100) throw new DemoError('That is too late.');
}

async function auditOffline(stage: Stage, gateId: string): Promise<void> {
  await waitForRecords(stage, gateId);
  const folder = mkdtempSync(join(tmpdir(), 'agent-trust-demo-'));
  try {
    const file = join(folder, 'export.jsonl');
    const jwks = join(folder, 'jwks.json');
    writeFileSync(file, await download(`${stage.url}/v1/attestations/export?format=jsonl`, stage.adminKey));
    writeFileSync(jwks, await download(`${stage.url}/.well-known/jwks.json`, null));
    print(`The export is ${readFileSync(file).byteLength} bytes; from here on no server is asked.`);
    const output = { write: (text: string) => print(text.trimEnd()) };
    if ((await verifyAttestationsCommand({ files: [file], jwks, output })) !== 0) {
      throw new DemoError('The export does not verify.');
    }

    const bytes = readFileSync(file);
    const at = bytes.indexOf('"amount_micro_usd":50010000') + '"amount_micro_usd":'.length;
    bytes[at] = '1'.charCodeAt(0);
    writeFileSync(file, bytes);
    print(
      `Now somebody makes the desk cheaper by changing one byte (at offset ${at}), and the auditor verifies again:`,
    );
    if ((await verifyAttestationsCommand({ files: [file], jwks, output })) !== 5) {
      throw new DemoError('The changed byte was not found.');
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Records travel to the control plane in batches: the story goes on when all decisions at the gate have
 * arrived.
 */
async function waitForRecords(stage: Stage, gateId: string): Promise<void> {
  const deadlineMs = performance.now() + 10_000;
  for (let before = -1; performance.now() < deadlineMs; ) {
    const gate = await api(stage, 'GET', `/gates/${gateId}`);
    const total = Number((gate.body['stats'] as Record<string, unknown>)['total_requests']);
    if (total === before && total > 0)
      return print(`${total} decisions at the gate have arrived as signed records.`);
    before = total;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new DemoError('The records did not arrive at the control plane within 10 s.');
}

const placeOrder = (shop: string, agent: Agent, order: object): Promise<Answer> =>
  call(shop, 'POST', null, order, { 'x-agent-passport': agent.token });

async function download(url: string, key: string | null): Promise<string> {
  const response = await fetch(url, key === null ? {} : { headers: { authorization: `Bearer ${key}` } });
  if (!response.ok) throw new DemoError(`GET ${url} answered ${response.status}.`);
  return response.text();
}

function explain(error: unknown): number {
  process.stderr.write(`\n${error instanceof Error ? error.message : String(error)}\n`);
  if (error instanceof SettingsError) return exitCode.usage;
  return error instanceof CommandError ? error.exitCode : exitCode.failure;
}

const program = new Command('npm run demo --')
  .description(
    'Runs a demonstration against a running agent-trust service and prints each step. Start the service first: npm start',
  )
  .option('--url <origin>', 'the control plane; default: from the settings')
  .option('--sidecar <origin>', 'the sidecar; default: from the settings')
  .option('--key-file <file>', 'the file of an admin key; default: DATA_DIR/admin-api-key')
  .addHelpText(
    'after',
    () =>
      `${apiKeyHelp}\nSettings, from the environment:\n${describeSettings(['command'], process.env)}\n\n${settingSourcesHelp}\n`,
  )
  .exitOverride((end) => process.exit(end.exitCode === 0 ? exitCode.success : exitCode.usage))
  .action(async (options: Options) => {
    const stage = await stageOf(options);
    await checkThatItRuns(stage);
    await play(stage);
  });
await program.parseAsync().catch((error: unknown) => {
  process.exitCode = explain(error);
});
