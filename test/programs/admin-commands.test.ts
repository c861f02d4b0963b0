import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

/** The commands of administrators as the packed program runs them, in shells. */
let database: Awaited<ReturnType<typeof testDatabase>>;
let world: Installation;
let service: Running;
let command: string;
let folder: ReturnType<typeof temporaryFolder>;
beforeAll(async () => {
  database = await testDatabase();
  world = await installation(await bundledPrograms(), { databaseUrl: database.url });
  service = await world.startControlPlane();
  command = join(await sharedService('bundle'), 'deploy/agent-trust.js');
  folder = temporaryFolder();
  writeFileSync(
    join(folder.path, 'agent-trust'),
    `#!/bin/sh\nexec "${process.execPath}" "${command}" "$@"\n`,
    {
      mode: 0o755,
    },
  );
}, 180_000);
afterAll(async () => {
  await world?.close();
  await database?.drop();
  folder?.remove();
});

const env = () => ({ PATH: `${folder.path}:${process.env['PATH']}`, HOME: folder.path, TERM: 'xterm' });

async function shell(script: string, program = 'bash', args: readonly string[] = ['-c', script]) {
  const child = spawn(program, args, { env: env(), stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [code, stdout, stderr] = await Promise.all([exited, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}

it('logs in from a pipe, and works with the profile in pipes', async () => {
  const keyFile = join(folder.path, 'key');
  writeFileSync(keyFile, world.adminKey, { mode: 0o600 });
  const login = await shell(`agent-trust login --url ${service.origin} < key`.replace(' key', ` ${keyFile}`));
  expect(login.stderr).toMatch(/^Stored as "default"/);
  expect(login.code).toBe(0);
  const piped = await shell('agent-trust gates create --name Orders --trust-level L1 --json | cut -c1-11');
  expect(piped).toMatchObject({ code: 0, stdout: '{"gate_id":\n', stderr: '' });
  // The reader goes first.
  for (let n = 0; n < 3; n++) await world.createGate();
  expect(await shell('agent-trust gates list --all --limit 1 --json | head -n 1 >/dev/null')).toMatchObject({
    code: 0,
    stderr: '',
  });
  const refused = await shell('agent-trust gates get gate_01h00000000000000000000000');
  expect(refused).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^agent-trust: gate_not/),
  });
});

it('types a key at a real terminal without an echo', async () => {
  const script = `
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp('agent-trust', ['agent-trust', 'login', '--url', sys.argv[1], '--profile', 'typed'])
seen, sent = b'', False
while True:
    ready = select.select([fd], [], [], 30)[0]
    if not ready: break
    try: more = os.read(fd, 4096)
    except OSError: break
    if not more: break
    seen += more
    if not sent and b'not shown' in seen:
        os.write(fd, sys.argv[2].encode() + b'\\r'); sent = True
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
sys.stdout.buffer.write(seen)
`;
  const python = await sharedService('python3');
  const ran = await shell('', python, ['-c', script, service.origin, world.adminKey]);
  expect(ran.stdout).toMatch(/^0$/m);
  expect(ran.stdout).toContain('Stored as "typed"');
  expect(ran.stdout).not.toContain(world.adminKey);
});

describe('two runs of apply at the same moment', () => {
  const issuers = ['A', 'B'];
  const gates = ['One', 'Two', 'Three'];
  const fileOf = (round: string) => {
    const path = join(folder.path, `${round}.yaml`);
    const lines = [
      'version: 1',
      'issuers:',
      ...issuers.map((name) => `  - { name: ${name} ${round} }`),
      'templates:',
      `  - { name: T ${round}, trust_level: L1 }`,
      'gates:',
      ...gates.map((name) => `  - { name: ${name} ${round}, trust_level: L1 }`),
      'webhooks:',
      `  - { url: 'https://shop.example/${round}', events: [gate.created] }`,
    ];
    writeFileSync(path, lines.join('\n'));
    return path;
  };
  const apply = (round: string, run: string) =>
    spawn(
      join(folder.path, 'agent-trust'),
      ['apply', '-f', fileOf(round), '--yes', '--secrets-file', join(folder.path, `${round}-${run}.jsonl`)],
      { env: { ...env(), AGENT_TRUST_URL: service.origin, AGENT_TRUST_API_KEY: world.adminKey } },
    );
  const ended = async (child: ReturnType<typeof apply>) => {
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const [code, said, failed] = await Promise.all([exited, text(child.stdout), text(child.stderr)]);
    return { code, said: `${said}${failed}` };
  };
  /** Names of this round in the account, each as often as it is there. */
  const made = async (round: string) => {
    const lists = ['issuers', 'templates', 'gates', 'webhooks'].map(async (resource) => {
      const answer = await fetch(`${service.origin}/v1/${resource}?limit=200`, {
        headers: { authorization: `Bearer ${world.adminKey}` },
      });
      const { items } = (await answer.json()) as { items: { name?: string; url?: string }[] };
      return items.map(({ name, url }) => name ?? url ?? '').filter((name) => name.endsWith(round));
    });
    return (await Promise.all(lists)).flat().toSorted();
  };
  const expected = (round: string) =>
    [...issuers, 'T', ...gates]
      .map((name) => `${name} ${round}`)
      .concat(`https://shop.example/${round}`)
      .toSorted();

  it('make one resource of each name, and both succeed', async () => {
    for (let n = 0; n < 3; n++) {
      const round = `round-${n}-end`;
      const both = await Promise.all([ended(apply(round, 'a')), ended(apply(round, 'b'))]);
      expect(
        both.map(({ code }) => code),
        both.map(({ said }) => said).join('\n'),
      ).toEqual([0, 0]);
      expect(await made(round)).toEqual(expected(round));
    }
  });

  it('leave no double where one is killed and run again', async () => {
    for (let n = 0; n < 2; n++) {
      const round = `killed-${n}-end`;
      const [victim, other] = [apply(round, 'a'), apply(round, 'b')];
      const others = ended(other);
      await new Promise<void>((resolve) => {
        victim.stderr.once('data', () => {
          victim.kill('SIGKILL');
          resolve();
        });
        victim.once('exit', () => resolve());
      });
      expect(await others).toMatchObject({ code: 0 });
      expect(await ended(apply(round, 'c'))).toMatchObject({ code: 0 });
      expect(await made(round)).toEqual(expected(round));
    }
  });
});

describe('completion', () => {
  /** What bash offers after this line. */
  const inBash = (line: string) => {
    const words = line.split(' ');
    return execFileSync(
      'bash',
      [
        '--norc',
        '-c',
        `source <(agent-trust completion bash); COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${words.length - 1}; compopt() { :; }; _agent_trust; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
      { env: env(), encoding: 'utf8' },
    )
      .trim()
      .split('\n');
  };

  it('offers commands, options and words in bash', () => {
    expect(inBash('agent-trust ga')).toEqual(['gates']);
    expect(inBash('agent-trust gates ')).toEqual(
      expect.arrayContaining(['list', 'get', 'create', 'publish']),
    );
    expect(inBash('agent-trust gates create --tr')).toEqual(['--trust-level']);
    expect(inBash('agent-trust gates create --trust-level ')).toEqual(['L1', 'L2', 'L3']);
    expect(inBash('agent-trust gates create --file ')).toEqual(['']);
    expect(inBash('agent-trust completion ')).toEqual(expect.arrayContaining(['bash', 'zsh']));
  });

  it('offers the same in zsh', async () => {
    const zsh = await sharedService('zsh');
    const script = `
zmodload zsh/zpty
zpty z ${zsh} -f -i
read_all() { local part; while zpty -r -t z part; do REPLY+=$part; done }
wait_for() { REPLY=; repeat 1200; do read_all; [[ $REPLY == *$1* ]] && return 0; sleep 0.1; done; return 1 }
zpty -w z 'PS1= ; autoload -Uz compinit; compinit -u -d ${folder.path}/dump; source <(agent-trust completion zsh); LISTMAX=1000; echo is-$((40+2))-ready'
wait_for is-42-ready || exit 1
zpty -w -n z $'agent-trust ga\\t'
wait_for gates || exit 2
zpty -w -n z $'cr\\t--trust-\\t\\t\\t'
wait_for L3 || exit 3
print done
zpty -d z
`;
    const ran = await shell('', zsh, ['-f', '-c', script]);
    expect(ran, ran.stderr).toMatchObject({ code: 0, stdout: 'done\n' });
  });
});
