import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Pool } from 'undici';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { must } from '../../shared/errors/assert.ts';
import { renderVkey, signatureTypes } from '../../shared/log/note.ts';
import { bothCores } from '../harness/cores.ts';
import { describeDatabase, lackOf } from '../harness/database.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install, program } from '../harness/installation.ts';
import { type LatencyTable, latencyLine } from '../harness/latency-table.ts';
import { atRate } from '../harness/open-load.ts';
import { issuePassports } from '../harness/passports.ts';
import { freePort, type Program, start } from '../harness/programs.ts';
import { count } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { targets } from '../harness/targets.ts';
import { benchGate } from '../harness/warm-load.ts';

const names = ['w1', 'w2', 'w3'] as const;
/** Decisions, in batches: one by one the generator would need a core of its own. */
const perSecond = 10_000;
const batchChecks = 32;
/** Chains that grow all the time: each is an entry of the log again and again. */
const passports = 2_000;
/** Different bodies, sent in turns. */
const bodies = 200;
/** One batch in so many has a record that is watched. */
const watchedEvery = 50;
/** How long after one question about a record the next one is. */
const lookMs = 250;
/** After this a record is lost. */
const provenMsMax = 120_000;

/** P31: from the answer of a decision to a checkpoint with its record that a quorum of witnesses cosigned. */
export async function witnessed({ size, database, say }: BenchOptions): Promise<LatencyTable> {
  const seconds = { full: 120, quick: 20, brief: 2 }[size];
  const base = {
    kind: 'latency',
    row: 'witnessed',
    title: `From a decision to a witnessed checkpoint, at ${count(perSecond)} decisions/s`,
    plans: [],
  } as const;
  const reason = lackOf(database);
  if (reason !== null) return { ...base, lines: [], notes: [`Skipped: ${reason}`] };
  const folder = newFolder('witnessed');
  const stops: (() => Promise<void>)[] = [];
  try {
    const witnesses = await Witnesses.start(folder, stops);
    const installation = await install({
      database,
      ...{ controlPlaneSettings: { LOG_WITNESSES: witnesses.policyFile }, isControlPlaneHurried: true },
      ...{ sidecarCores: bothCores, controlPlaneCores: bothCores },
    });
    stops.push(() => installation.stop());
    await witnesses.learnLog(installation);
    const { gateId, request } = await benchGate(installation);
    const tokens = await issuePassports(installation, passports);
    const texts = Array.from({ length: bodies }, (_, body) =>
      JSON.stringify({
        checks: Array.from({ length: batchChecks }, (__, place) => ({
          passport: tokens[(body * batchChecks + place) % tokens.length],
          request,
        })),
      }),
    );
    const watching: Promise<Proven>[] = [];
    const load = await runLoad(installation, { gateId, texts, seconds }, (id, answeredMs) =>
      watching.push(proven(installation, id, answeredMs)),
    );
    say(`${load.permits} decisions in ${load.seconds.toFixed(0)} s; ${watching.length} records are watched`);
    const behind = await installation.sidecarWaitingBytes();
    const times = await Promise.all(watching);
    return {
      ...base,
      lines: [
        latencyLine(
          times.map(({ provenMs }) => provenMs),
          {
            what: 'the record is in a checkpoint that two of three witnesses cosigned',
            target: { name: 'P31', p99MsMax: targets.P31.wanted },
            remark: `${count(load.permits / load.seconds)} decisions/s`,
          },
        ),
        latencyLine(
          times.map(({ storedMs }) => storedMs),
          { what: 'of this, until it is in the database', target: null, remark: 'shipped and committed' },
        ),
        latencyLine(
          times.map(({ storedMs, provenMs }) => provenMs - storedMs),
          { what: 'and from there on', target: null, remark: 'the log and its witnesses' },
        ),
      ],
      notes: [
        describeDatabase(database),
        `Open loop for ${seconds} s: batches of ${batchChecks}, ${count(perSecond)} decisions/s due, about ${count(passports)} passports in turn. ${count(load.permits)} were PERMITs, ${count(load.others)} were not; all were answered after ${load.seconds.toFixed(1)} s, p99 of a batch ${load.p99Ms.toFixed(0)} ms. ${count(behind)} bytes of records waited at the sidecar then.`,
        `One record in ${watchedEvery * batchChecks} is asked about every ${lookMs} ms from its answer on, until it has a proof: the times are too long by up to that, and a question more.`,
        'Control plane, PostgreSQL, sidecar, generator and three witnesses, each a program of its own, share both cores.',
      ],
    };
  } finally {
    for (const stop of stops.toReversed()) await stop();
    removeFolder(folder);
  }
}

interface LoadResult {
  readonly permits: number;
  readonly others: number;
  /** Until the last answer. */
  readonly seconds: number;
  readonly p99Ms: number;
}

async function runLoad(
  { sidecarOrigin, apiKey }: Installation,
  {
    gateId,
    texts,
    seconds,
  }: { readonly gateId: string; readonly texts: readonly string[]; readonly seconds: number },
  watch: (attestationId: string, answeredMs: number) => void,
): Promise<LoadResult> {
  const path = `/v1/gates/${gateId}/check/batch`;
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const ask = async (pool: Pool, item: number) => {
    const body = must(texts[item % texts.length], 'there are bodies');
    const answer = await pool.request({ method: 'POST', path, headers, body });
    const text = await answer.body.text();
    const permits = text.split('"decision":"PERMIT"').length - 1;
    const [, id] = /"attestation_id":"(att_\w+)"/.exec(text) ?? [];
    if (item % watchedEvery === 0 && id !== undefined) watch(id, performance.now());
    return { permits };
  };
  const batches = Array.from({ length: Math.round((perSecond / batchChecks) * seconds) }, (_, item) => item);
  const beganMs = performance.now();
  const arrivals = { origin: sidecarOrigin, perSecond: perSecond / batchChecks };
  const answers = await atRate(arrivals, batches, ask);
  const permits = answers.reduce((sum, each) => sum + each.permits, 0);
  const { p99Ms } = latencyLine(
    answers.map(({ timeMs }) => timeMs),
    { what: 'a batch', target: null, remark: '' },
  );
  return {
    permits,
    others: batches.length * batchChecks - permits,
    seconds: (performance.now() - beganMs) / 1_000,
    p99Ms,
  };
}

/** From the answer of a decision on. */
interface Proven {
  /** Until its record is found. */
  readonly storedMs: number;
  /** Until its proof is served. */
  readonly provenMs: number;
}

async function proven(
  { controlPlaneOrigin, apiKey }: Installation,
  id: string,
  answeredMs: number,
): Promise<Proven> {
  let storedMs: number | null = null;
  for (;;) {
    await pause(lookMs);
    const answer = await fetch(`${controlPlaneOrigin}/v1/attestations/${id}/proof`, {
      headers: { authorization: `Bearer ${apiKey}` },
    }).catch(() => null);
    await answer?.arrayBuffer();
    const afterMs = performance.now() - answeredMs;
    if (answer?.status === 409 || answer?.status === 200) storedMs ??= afterMs;
    if (answer?.status === 200) return { storedMs: storedMs ?? afterMs, provenMs: afterMs };
    if (afterMs > provenMsMax) throw new Error(`${id} has no proof after ${provenMsMax / 1_000} s`);
  }
}

/** Three programs, any two of which are a quorum. */
class Witnesses {
  readonly policyFile: string;
  readonly #folder: string;
  readonly #running = new Map<string, Program>();
  readonly #ports = new Map<string, number>();
  #lines = '';

  private constructor(folder: string) {
    this.#folder = folder;
    this.policyFile = join(folder, 'log.policy');
  }

  /** They show their keys before there is a log, and learn of it afterwards. */
  static async start(folder: string, stops: (() => Promise<void>)[]): Promise<Witnesses> {
    const self = new Witnesses(folder);
    const { publicKey } = chooseEd25519().signer(new Uint8Array(32).fill(1));
    const none = renderVkey('example.com/log', signatureTypes.ed25519, publicKey);
    writeFileSync(self.policyFile, `log ${none}\nquorum none\n`);
    stops.push(() => self.#stop());
    for (const name of names) {
      self.#ports.set(name, await freePort());
      const vkey = await self.#start(name);
      self.#lines += `witness ${name} ${vkey} http://127.0.0.1:${self.#ports.get(name)}/\n`;
    }
    self.#lines += `group two 2 ${names.join(' ')}\nquorum two\n`;
    writeFileSync(self.policyFile, self.#lines);
    return self;
  }

  async learnLog({ controlPlaneOrigin, jwks }: Installation): Promise<void> {
    const { keys } = JSON.parse(await jwks()) as { keys: { purpose: string; x: string }[] };
    const { x } = must(
      keys.find(({ purpose }) => purpose === 'log'),
      'there is a key of the log',
    );
    const origin = `${new URL(controlPlaneOrigin).host}/log`;
    const vkey = renderVkey(origin, signatureTypes.ed25519, Buffer.from(x, 'base64url'));
    writeFileSync(this.policyFile, `log ${vkey}\n${this.#lines}`);
    await this.#stop();
    for (const name of names) await this.#start(name);
  }

  async #start(name: string): Promise<string> {
    const args = ['--name', `${name}.example`, '--logs', this.policyFile];
    const place = ['--data-dir', join(this.#folder, name), '--port', String(this.#ports.get(name))];
    const witness = start({
      core: bothCores,
      command: [process.execPath, program, 'witness', ...args, ...place],
    });
    this.#running.set(name, witness);
    const [vkey] = await witness.find(/w\d\.example\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+/);
    await witness.find(/witness is listening/);
    return vkey;
  }

  async #stop(): Promise<void> {
    await Promise.all([...this.#running.values()].map((witness) => witness.stop()));
  }
}
