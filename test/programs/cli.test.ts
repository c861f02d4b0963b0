import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiKeyRandomBytes, makeApiKey } from '../../shared/crypto/api-key.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { freePort } from '../support/base/free-port.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { compiledPrograms, type Program, type Programs } from '../support/programs/programs.ts';

/** The commands as processes: what they print, and how they end. */
let programs: Programs;
let folder: ReturnType<typeof temporaryFolder>;
/** Where a service would be that these settings start, and is not. */
let nobody: Readonly<Record<string, string>>;

beforeAll(async () => {
  programs = await compiledPrograms();
  folder = temporaryFolder();
  nobody = await settingsOf('nobody');
});
afterAll(() => folder.remove());

async function settingsOf(name: string): Promise<Readonly<Record<string, string>>> {
  const ports = { PORT: String(await freePort()), SIDECAR_PORT: String(await freePort()) };
  return { ...ports, DATA_DIR: join(folder.path, name) };
}

const ended = async (
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  script?: string,
): Promise<{ readonly code: number | null; readonly output: string; readonly stdout: string }> => {
  const program = programs.start(args, env, script);
  return { code: await program.exited, output: program.output(), stdout: program.stdout() };
};

it('prints help and starts nothing where no command is given', async () => {
  const { code, stdout } = await ended([], nobody);
  expect(code).toBe(0);
  for (const word of ['start', 'healthcheck', 'webhooks', 'DATABASE_URL', 'Exit codes:'])
    expect(stdout).toContain(word);
  expect(existsSync(nobody['DATA_DIR'] ?? '')).toBe(false);
});

describe('exit codes', () => {
  const key = makeApiKey('live', systemRandom().bytes(apiKeyRandomBytes));
  const cases: readonly (readonly [
    what: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    code: number,
    words: RegExp,
  ])[] = [
    ['help of a command', ['sidecar', '--help'], {}, 0, /CONTROL_PLANE_URL/],
    ['the version', ['--version'], {}, 0, /^\d+\.\d+\.\d+\n$/],
    ['an unknown command', ['strat'], {}, 2, /unknown command 'strat'[\s\S]*Did you mean start/],
    ['an unknown option', ['start', '--port', '1'], {}, 2, /unknown option '--port'/],
    ['a wrong setting, of a sidecar', ['sidecar'], {}, 2, /CONTROL_PLANE_URL must be set/],
    ['a wrong setting, of a command', ['healthcheck'], { SIDECAR_PORT: 'x' }, 2, /SIDECAR_PORT must be/],
    ['an unknown program', ['healthcheck', 'database'], {}, 2, /Allowed choices are control-plane, sidecar/],
    ['a port that names no address', ['healthcheck'], { PORT: '0' }, 2, /PORT is 0/],
    ['nobody there', ['healthcheck'], {}, 1, /control-plane: .*ECONNREFUSED\nsidecar: .*ECONNREFUSED/],
    [
      'a service that is away',
      ['webhooks', 'trigger', 'gate.created'],
      { ADMIN_API_KEY: key },
      1,
      /cannot be reached/,
    ],
    ['no key', ['webhooks', 'trigger', 'gate.created'], {}, 2, /There is no API key/],
    ['a missing file', ['attestations', 'verify', '/nowhere', '--jwks', '/nowhere'], {}, 2, /ENOENT/],
  ];
  it.each(cases)('%s', async (_what, args, env, code, words) => {
    const { code: found, output } = await ended(args, { ...nobody, ...env });
    expect(found, output).toBe(code);
    expect(output).toMatch(words);
    expect(output).not.toContain(key);
    expect(existsSync(nobody['DATA_DIR'] ?? '')).toBe(false);
  });

  it('an export that does not verify', async () => {
    const file = join(folder.path, 'export.jsonl');
    const jwks = join(folder.path, 'jwks.json');
    writeFileSync(file, '{"manifest":{}}\n');
    writeFileSync(jwks, '{"keys":[]}');
    const { code, output } = await ended(['attestations', 'verify', file, '--jwks', jwks], {});
    expect(code, output).toBe(5);
    expect(output).toMatch(/^NOT OK/);
    rmSync(file);
    expect((await ended(['attestations', 'verify', file, '--jwks', jwks], {})).code).toBe(2);
  });

  it('of the demo: a service that is away', async () => {
    const { code, output } = await ended([], { ...nobody, ADMIN_API_KEY: key }, 'deploy/demo.js');
    expect(code, output).toBe(1);
    expect(output).toMatch(/is not ready at http:\/\/127\.0\.0\.1:/);
  });
});

describe('with a service that runs', () => {
  let settings: Readonly<Record<string, string>>;
  let service: Program;

  beforeAll(async () => {
    settings = await settingsOf('service');
    service = programs.start(['start'], settings);
    await service.waitFor(/agent-trust is ready/);
  });
  afterAll(async () => {
    await service.stop();
  });

  it('finds it by the settings of the service alone: demo, webhooks, healthcheck', async () => {
    const played = await ended([], settings, 'deploy/demo.js');
    // How it ends depends on how fast this machine is: it measures the revocation.
    expect(played.output).toMatch(/buyer orders a lamp .*: PERMIT, record att_/);

    // It is reached and takes the key; it says that nobody subscribes.
    const triggered = await ended(['webhooks', 'trigger', 'gate.created'], settings);
    expect(triggered.code).toBe(1);
    expect(triggered.output).toMatch(/No enabled webhook of this account subscribes to gate\.created/);

    const found = await ended(['healthcheck'], settings);
    expect(found.code).toBe(0);
    expect(found.stdout).toBe('control-plane: ready\nsidecar: ready\n');
  });

  it('is healthy by the very words of the container files', async () => {
    const files = ['deploy/Dockerfile', 'deploy/compose.yaml'].map((path) =>
      readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8'),
    );
    const checks = [
      ...files
        .join('\n')
        .matchAll(/\["(?:CMD", ")?node", "\/app\/dist\/deploy\/agent-trust\.js"((?:, "[^"]+")+)\]/g),
    ]
      .map((match) => JSON.parse(`[${(match[1] ?? '').slice(2)}]`) as string[])
      .filter(([command]) => command === 'healthcheck');
    expect(checks).toEqual([['healthcheck'], ['healthcheck', 'control-plane'], ['healthcheck', 'sidecar']]);
    for (const args of checks) expect((await ended(args, settings)).code).toBe(0);
  });

  it('names the program: one that does not answer, one that is not ready', async () => {
    const elsewhere = { ...settings, SIDECAR_PORT: nobody['SIDECAR_PORT'] ?? '' };
    expect((await ended(['healthcheck'], elsewhere)).stdout).toBe('control-plane: ready\n');
    expect((await ended(['healthcheck', 'sidecar'], elsewhere)).code).toBe(1);

    const alone = {
      ...(await settingsOf('alone')),
      CONTROL_PLANE_URL: `http://127.0.0.1:${nobody['PORT']}`,
      SIDECAR_API_KEY: makeApiKey('live', systemRandom().bytes(apiKeyRandomBytes)),
    };
    const sidecar = programs.start(['sidecar'], alone);
    await sidecar.waitFor(/sidecar is listening/);
    const found = await ended(['healthcheck'], { ...alone, PORT: nobody['PORT'] ?? '' });
    expect(found.code).toBe(1);
    expect(found.stdout).toMatch(/^sidecar: not ready, 503: \{"status":"not_ready".*\n$/);
    await sidecar.stop();
  });
});
