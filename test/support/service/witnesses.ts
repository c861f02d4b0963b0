import { writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { type RunningWitness, startWitness } from '../../../cli/witness/start-witness.ts';
import { logKeysOf } from '../../../control-plane/log/checkpoint-round.ts';
import { originOf } from '../../../control-plane/log/deps.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { renderVkey, signatureTypes } from '../../../shared/log/note.ts';
import { parseWitnessPolicy, type WitnessPolicy } from '../../../shared/log/witness-policy.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import { listening } from '../base/listening.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import type { Api } from './api.ts';

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
  { port = 0, folder = temporaryFolder(), clock = systemClock } = {},
): Promise<TestWitness> {
  const policyFile = join(folder.path, 'logs.policy');
  writeFileSync(policyFile, `${logs}quorum none\n`);
  const running = await startWitness({
    ...{ folder: join(folder.path, 'state'), name: `${name}.example`, policyFile, host: '127.0.0.1', port },
    ...{ clock, random: systemRandom(), ed25519: chooseEd25519(), logger: silentLogger },
  });
  return {
    ...running,
    name,
    folder: join(folder.path, 'state'),
    restart: async () => {
      await running.close();
      return testWitness(name, logs, { port: Number(new URL(running.origin).port), folder, clock });
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
  const { origin, close } = await listening(createServer(answer));
  const { publicKey } = chooseEd25519().signer(systemRandom().bytes(32));
  return {
    name,
    vkey: renderVkey(`${name}.example`, signatureTypes.cosignature, publicKey),
    origin,
    close,
  };
}
