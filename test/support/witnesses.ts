import { writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { logKeysOf } from '../../control-plane/log/checkpoint-round.ts';
import { originOf } from '../../control-plane/log/deps.ts';
import { type RunningWitness, startWitness } from '../../control-plane/witness/start-witness.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { renderVkey, signatureTypes } from '../../shared/log/note.ts';
import { parseWitnessPolicy, type WitnessPolicy } from '../../shared/log/witness-policy.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import type { Api } from './api.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** The line of a policy for each key of this log; its first log, unless another number is given. */
export const logLines = ({ deps }: Pick<Api, 'deps'>, log = 1): string =>
  logKeysOf(deps, originOf(deps, log))
    .map(({ name, publicKey }) => `log ${renderVkey(name, signatureTypes.ed25519, publicKey)}\n`)
    .join('');

export interface TestWitness extends RunningWitness {
  readonly name: string;
  readonly folder: string;
  /** Ends it, and starts it again with what it has on disk. */
  restart(): Promise<TestWitness>;
  remove(): Promise<void>;
}

/** A witness in this process, which knows these logs. */
export async function testWitness(
  name: string,
  logs: string,
  { port = 0, folder = temporaryFolder() } = {},
): Promise<TestWitness> {
  const policyFile = join(folder.path, 'logs.policy');
  writeFileSync(policyFile, `${logs}quorum none\n`);
  const running = await startWitness({
    ...{ folder: join(folder.path, 'state'), name: `${name}.example`, policyFile, host: '127.0.0.1', port },
    ...{ clock: systemClock, random: systemRandom(), ed25519: chooseEd25519(), logger: silentLogger },
  });
  return {
    ...running,
    name,
    folder: join(folder.path, 'state'),
    restart: async () => {
      await running.close();
      return testWitness(name, logs, { port: Number(new URL(running.origin).port), folder });
    },
    remove: async () => {
      await running.close();
      folder.remove();
    },
  };
}

/** Of these witnesses any `least` are a quorum. `logs`: as `logLines` writes them, for those who verify. */
export function policyOf(
  witnesses: readonly { readonly name: string; readonly vkey: string; readonly origin: string }[],
  least: number,
  logs = '',
): WitnessPolicy {
  const lines = witnesses.map(({ name, vkey, origin }) => `witness ${name} ${vkey} ${origin}\n`).join('');
  const names = witnesses.map(({ name }) => name).join(' ');
  const text = `${logs}${lines}group enough ${least} ${names}\nquorum enough\n`;
  return parseWitnessPolicy(chooseEd25519(), Buffer.from(text));
}

/** Answers as it likes, under the key of a witness that never was. */
export async function hostileWitness(
  name: string,
  answer: RequestListener,
): Promise<{
  readonly name: string;
  readonly vkey: string;
  readonly origin: string;
  close(): Promise<void>;
}> {
  const server: Server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { publicKey } = chooseEd25519().signer(systemRandom().bytes(32));
  return {
    name,
    vkey: renderVkey(`${name}.example`, signatureTypes.cosignature, publicKey),
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
