/**
 * Room `cli/witness`: `agent-trust witness`, which cosigns checkpoints of logs (C2SP tlog-witness).
 * Needs no database: all that it knows is one file (`witness-state.ts`). `add-checkpoint.ts` judges.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { Ed25519, Signer } from '../../shared/crypto/ed25519.ts';
import { messageOf } from '../../shared/errors/message-of.ts';
import { parseSignedCheckpoint } from '../../shared/log/checkpoint.ts';
import { cosign } from '../../shared/log/cosignature.ts';
import {
  type NoteKey,
  renderNote,
  renderSignatureLine,
  renderVkey,
  signatureTypes,
} from '../../shared/log/note.ts';
import { parseWitnessPolicy, policyBounds, WitnessPolicyError } from '../../shared/log/witness-policy.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { lockDataDir } from '../../shared/runtime/data-dir-lock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { readPlainFile } from '../../shared/runtime/plain-file.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { removeUnfinished } from '../../shared/runtime/secret-file.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { judgeSubmission, parseSubmission, type Submission } from './add-checkpoint.ts';
import { witnessLimits } from './limits.ts';
import { readState, type WitnessState, writeState } from './witness-state.ts';

export interface WitnessOptions {
  /** Its state is `witness.json` there; locked against a second process. */
  readonly folder: string;
  /** Of its key, such as `witness.example/w1`; null: that of the state. */
  readonly name: string | null;
  /** A tlog-policy file, of which the log lines count. */
  readonly policyFile: string;
  readonly host: string;
  readonly port: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly ed25519: Ed25519;
  readonly logger: Logger;
}

export interface RunningWitness {
  readonly origin: string;
  readonly vkey: string;
  startDraining(): void;
  close(): Promise<void>;
}

/** Throws StartError for what its operator can mend. */
export async function startWitness(options: WitnessOptions): Promise<RunningWitness> {
  const { folder, logger, ed25519 } = options;
  const logs = await readLogs(options.policyFile, ed25519);
  const lock = await lockDataDir(folder, 'witness');
  try {
    const file = join(folder, 'witness.json');
    await removeUnfinished(file);
    const state = (await readState(file)) ?? (await beginState(file, options));
    if (options.name !== null && options.name !== state.name)
      throw new StartError(`The witness of ${folder} is ${state.name}: a witness never changes its name.`);
    const signer = ed25519.signer(state.seed);
    const witness = new Witness({ ...options, file, logs, signer, state });
    const server = createServer((request, response) => void witness.answer(request, response));
    server.maxConnections = witnessLimits.connectionsMax;
    server.requestTimeout = witnessLimits.requestReadMsMax;
    server.headersTimeout = witnessLimits.requestReadMsMax;
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) =>
        reject(
          new StartError(`The witness cannot listen on ${options.host}:${options.port}: ${cause.message}.`, {
            cause,
          }),
        ),
      );
      server.listen(options.port, options.host, resolve);
    });
    const { port } = server.address() as AddressInfo;
    const vkey = renderVkey(state.name, signatureTypes.cosignature, signer.publicKey);
    logger.info(
      { vkey, origin: `http://${options.host}:${port}`, logs: [...logs.keys()] },
      'witness is listening',
    );
    return {
      origin: `http://${options.host}:${port}`,
      vkey,
      startDraining: () => undefined,
      close: async () => {
        await new Promise<void>((resolve) => {
          server.close(() => resolve());
          server.closeIdleConnections();
        });
        await lock.release();
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** The keys of each origin. */
async function readLogs(path: string, ed25519: Ed25519): Promise<Map<string, NoteKey[]>> {
  const logs = new Map<string, NoteKey[]>();
  try {
    for (const { key } of parseWitnessPolicy(
      ed25519,
      await readPlainFile(path, policyBounds.bytesMax, ['link']),
    ).logs) {
      logs.set(key.name, [...(logs.get(key.name) ?? []), key]);
    }
  } catch (cause) {
    const why = messageOf(cause);
    const what = cause instanceof WitnessPolicyError ? 'is not a usable policy' : 'cannot be read';
    throw new StartError(`${path} ${what}: ${why}.`, { cause });
  }
  if (logs.size === 0) throw new StartError(`${path} has no log line: the witness would know no log.`);
  return logs;
}

async function beginState(file: string, { name, random }: WitnessOptions): Promise<WitnessState> {
  if (name === null) throw new StartError(`${file} does not exist yet: begin the witness with --name.`);
  const state = { name, seed: random.bytes(32), checkpoints: new Map<string, string>() };
  await writeState(file, state);
  return state;
}

interface Parts extends Pick<WitnessOptions, 'clock' | 'logger'> {
  readonly file: string;
  readonly logs: ReadonlyMap<string, readonly NoteKey[]>;
  readonly signer: Signer;
  readonly state: WitnessState;
}

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const plain = (status: number, body: string): Reply => ({ status, type: 'text/plain; charset=utf-8', body });

class Witness {
  readonly #parts: Parts;
  #state: WitnessState;
  /** Submissions are judged and kept one after the other: else one could take another's back. */
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #isDiskFailing = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#state = parts.state;
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const reply = await this.#replyTo(request).catch((error: unknown) => {
      this.#parts.logger.error({ err: error }, 'a request could not be answered');
      return plain(500, 'internal error\n');
    });
    if (reply === null) {
      request.destroy();
      return;
    }
    const { status, type, body } = reply;
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
    response.end(body);
  }

  /** Null: the body does not end. */
  async #replyTo(request: IncomingMessage): Promise<Reply | null> {
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    if (request.method === 'GET') return this.#monitor(path);
    if (request.method !== 'POST' || path !== '/add-checkpoint') return plain(404, 'no such address\n');
    const body = await readBody(request);
    if (body === null) return null;
    if (body === 'too_long') {
      request.resume();
      return plain(413, `a body has at most ${witnessLimits.bodyBytesMax} bytes\n`);
    }
    const submission = parseSubmission(body);
    if (submission === null) return plain(400, 'the body is not one of add-checkpoint\n');
    if (this.#waiting >= witnessLimits.waitingMax) return plain(503, 'too many checkpoints wait\n');
    this.#waiting += 1;
    const done = this.#last.then(() => this.#add(submission));
    this.#last = done.catch(() => undefined);
    return done.finally(() => {
      this.#waiting -= 1;
    });
  }

  #monitor(path: string): Reply {
    const [, hash] = /^\/([0-9a-f]{64})\/checkpoint$/.exec(path) ?? [];
    for (const [origin, checkpoint] of this.#state.checkpoints) {
      if (sha256Hex(origin) === hash) return plain(200, checkpoint);
    }
    return plain(404, 'no checkpoint of such a log was cosigned\n');
  }

  async #add(submission: Submission): Promise<Reply> {
    const { logs, logger } = this.#parts;
    const { checkpoint, note } = submission.signed;
    const keys = logs.get(checkpoint.origin) ?? [];
    const stored = this.#state.checkpoints.get(checkpoint.origin);
    const cosigned = stored === undefined ? null : parseSignedCheckpoint(stored);
    const judgement = judgeSubmission(submission, keys, cosigned);
    if (judgement.kind === 'conflict')
      return { status: 409, type: 'text/x.tlog.size', body: `${judgement.size}\n` };
    if (judgement.kind === 'refused') {
      const { status, reason } = judgement;
      // Signed by the log: it may prove that the log shows two trees.
      if (status === 422)
        logger.error({ origin: checkpoint.origin, shown: renderNote(note), cosigned: stored }, reason);
      return plain(status, `${reason}\n`);
    }
    const line = this.#cosign(note.text);
    if (cosigned?.note.text === note.text) return plain(200, renderSignatureLine(line));
    const trusted = note.signatures.filter(({ name, keyId }) =>
      keys.some((key) => key.name === name && key.keyId === keyId),
    );
    const kept = renderNote({ text: note.text, signatures: [...trusted, line] });
    const next = {
      ...this.#state,
      checkpoints: new Map(this.#state.checkpoints).set(checkpoint.origin, kept),
    };
    if (!(await this.#keep(next))) return plain(503, 'the checkpoint could not be kept\n');
    return plain(200, renderSignatureLine(line));
  }

  #cosign(noteText: string) {
    const { signer, clock } = this.#parts;
    return cosign(this.#state.name, signer, noteText, Math.floor(clock.now() / secondMs));
  }

  /** A cosignature is not given out before the disk has its checkpoint. */
  async #keep(next: WitnessState): Promise<boolean> {
    const { file, logger } = this.#parts;
    try {
      await writeState(file, next);
    } catch (error) {
      if (!this.#isDiskFailing)
        logger.error({ err: error }, 'checkpoints cannot be kept, so none is cosigned');
      this.#isDiskFailing = true;
      return false;
    }
    if (this.#isDiskFailing) logger.info({}, 'checkpoints can be kept again');
    this.#isDiskFailing = false;
    this.#state = next;
    return true;
  }
}

/** What is too long is not kept: once it is answered, the server reads on and drops it. */
async function readBody(request: IncomingMessage): Promise<string | 'too_long' | null> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      if (bytes > witnessLimits.bodyBytesMax) return 'too_long';
      chunks.push(chunk);
    }
  } catch {
    return null;
  }
  return Buffer.concat(chunks).toString('utf8');
}
