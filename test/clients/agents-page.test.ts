import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fastify, { type FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fastifyGuard } from '../../clients/node/src/fastify.ts';
import { decisionReasons } from '../../shared/model/decision.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { fencedBlock } from '../support/data/verify-example.ts';
import { root } from './support/installed-client.ts';
import { pythonEnv, pythons } from './support/python.ts';
import { type ClientService, startClientService } from './support/service.ts';

const run = promisify(execFile);
const page = readFileSync(join(root, 'docs/agents.md'), 'utf8');

/** A shop that takes idempotency keys, whose owner approves what was asked for once. */
let service: ClientService;
let shop: FastifyInstance;
let shopUrl: string;
/** The status of each answer and the key of its request, in order. */
const answers: { readonly status: number; readonly key: unknown; readonly approval: unknown }[] = [];
const folder = temporaryFolder();

beforeAll(async () => {
  service = await startClientService();
  const { agentTrust, sidecar, url } = service;
  const constraints = {
    approvals: { above_usd: 100 },
    spend_limits: { per_transaction_usd: 500, daily_usd: 1_000_000 },
  };
  const gate = await agentTrust.gates.create({ name: 'Shop', trust_level: 'L1', constraints });
  await service.testSidecar.caughtUp();
  const guard = fastifyGuard({ sidecar, controlPlaneUrl: url });
  const preHandler = guard({
    gate: gate.gate_id,
    permission: 'orders:create',
    amount: (request) => request.body.amount,
    idempotencyKey: (request) => request.headers['idempotency-key'] as string | undefined,
  });
  shop = fastify();
  shop.post<{ Body: { item: string } }>('/orders', { preHandler }, async (request, reply) =>
    reply.code(201).send({ ordered: request.body.item }),
  );
  shop.addHook('onSend', async (request, reply, payload) => {
    const approval = request.headers['x-agent-approval'];
    answers.push({ status: reply.statusCode, key: request.headers['idempotency-key'], approval });
    if (reply.statusCode === 202) await agentTrust.approvals.approve(JSON.parse(String(payload)).approval_id);
  });
  shopUrl = await shop.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await shop.close();
  await service.close();
  folder.remove();
});

async function envFor(agentId: string, permissions = ['orders:create']): Promise<Record<string, string>> {
  const { jwt = '' } = await service.agentTrust.passports.issue({ agent_id: agentId, permissions });
  answers.length = 0;
  return pythonEnv({ SHOP: shopUrl, PASSPORT: jwt });
}

describe('docs/agents.md', () => {
  it('has a command that is served', async () => {
    const { stdout } = await run('bash', ['-c', fencedBlock(page, 'sh')], { env: await envFor('curl') });
    expect(stdout).toContain('201 Created');
    expect(stdout).toContain('{"ordered":"tea"}');
  });

  const programs = {
    'Node.js': async () => ({ command: process.execPath, file: 'agent.mjs', language: 'js' }),
    Python: async () => ({ command: (await pythons())[0], file: 'agent.py', language: 'python' }),
  };
  it.each(Object.entries(programs))(
    'has a program in %s that waits for its approval, sends the same request again and is served once',
    async (name, program) => {
      const { command, file, language } = await program();
      writeFileSync(join(folder.path, file), fencedBlock(page, language));
      const options = { cwd: folder.path, env: await envFor(name) };
      const { stdout } = await run(command, [file], options);
      expect(stdout).toBe('done tea\n');
      expect(answers.map(({ status }) => status)).toEqual([202, 201]);
      expect(new Set(answers.map(({ key }) => key)).size).toBe(1);
      expect(answers[0]).toMatchObject({ key: expect.stringMatching(/./), approval: undefined });
      expect(answers[1]?.approval).toMatch(/^appr_/);

      const refused = await run(command, [file], {
        ...options,
        env: await envFor(`${name}, not allowed`, ['orders:read']),
      }).catch((error: { stderr: string }) => error);
      expect(refused.stderr).toContain('permission_not_granted');
      expect(answers.map(({ status }) => status)).toEqual([403]);
    },
  );

  it('says what to do about reasons that there are', () => {
    const named = [...page.matchAll(/^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|/gm)]
      .flatMap(([, list = '']) => list.split(', '))
      .map((word) => word.replaceAll('`', ''))
      .filter((word) => word !== 'passport_missing');
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((reason) => !(decisionReasons as readonly string[]).includes(reason))).toEqual([]);
  });
});
