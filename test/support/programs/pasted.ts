import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { sharedService } from '../run/shared-services.ts';

export type Shell = 'bash' | 'zsh';

export interface Pasted {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const argsOf: Readonly<Record<Shell, readonly string[]>> = { bash: ['--norc', '-s'], zsh: ['-f', '-s'] };

/** Ports of a running service, in the place of those that pages name. */
export interface PagePorts {
  readonly controlPlane: number;
  readonly sidecar: number;
  /** Of the service of the reader, 3000 on the pages. */
  readonly own: number;
}

const withPorts = (script: string, { controlPlane, sidecar, own }: PagePorts): string =>
  script
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${controlPlane}`)
    .replaceAll('127.0.0.1:8090', `127.0.0.1:${sidecar}`)
    .replaceAll('127.0.0.1:3000', `127.0.0.1:${own}`);

/**
 * A folder as a reader has it who ran `npm start` there: `npx agent-trust` runs the compiled program, and
 * `python3` has what the pages ask for.
 */
export async function readersFolder(path: string): Promise<{ readonly bin: string }> {
  const bin = join(path, 'bin');
  mkdirSync(bin, { recursive: true });
  const command = join(await sharedService('bundle'), 'deploy/agent-trust.js');
  const write = (name: string, script: string) => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  };
  write('npx', `shift\nPORT=$PAGE_PORT exec "${process.execPath}" "${command}" "$@"`);
  write('node', `exec "${process.execPath}" "$@"`);
  return { bin };
}

/** What a shell does with this script, until it ends; what it left running is ended then. */
export async function paste(
  script: string,
  options: {
    readonly shell: Shell;
    readonly folder: string;
    readonly ports: PagePorts;
    readonly env?: Readonly<Record<string, string>>;
    readonly msMax?: number;
  },
): Promise<Pasted> {
  const { shell, folder, ports, env = {}, msMax = 90_000 } = options;
  const program = shell === 'zsh' ? await sharedService('zsh') : 'bash';
  const child: ChildProcess = spawn(program, argsOf[shell], {
    cwd: folder,
    // Its own group: what a page starts in the background ends with it.
    detached: true,
    env: {
      PATH: `${join(folder, 'bin')}${delimiter}${process.env['PATH']}`,
      HOME: folder,
      PAGE_PORT: String(ports.controlPlane),
      PORT: String(ports.own),
      SIDECAR_PORT: String(ports.sidecar),
      SIDECAR_URL: `http://127.0.0.1:${ports.sidecar}`,
      CONTROL_PLANE_URL: `http://127.0.0.1:${ports.controlPlane}`,
      ...env,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const endGroup = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // Nothing of it runs any more.
    }
  };
  const deadline = setTimeout(endGroup, msMax);
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => {
      endGroup();
      resolve(code);
    });
  });
  child.stdin?.end(withPorts(script, ports));
  const [code, stdout, stderr] = await Promise.all([
    exited,
    child.stdout === null ? '' : text(child.stdout),
    child.stderr === null ? '' : text(child.stderr),
  ]);
  clearTimeout(deadline);
  return { code, stdout, stderr };
}
