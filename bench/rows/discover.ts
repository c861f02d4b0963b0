import { randomBytes } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import type { Database } from '../../control-plane/base/database.ts';
import { offersQuery, totalQuery } from '../../control-plane/discovery/find-offers.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { type DiscoveryQuery, discoverySorts } from '../../shared/wire/api/discovery.ts';
import { disposableDatabase } from '../harness/audit-stage.ts';
import { measuredCore } from '../harness/cores.ts';
import { copiedDatabase } from '../harness/database.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { program, ready } from '../harness/installation.ts';
import { type LatencyLine, type LatencyTable, latencyLine } from '../harness/latency-table.ts';
import { areaName, categoryName, crowded, fillMarket } from '../harness/market-and-gates.ts';
import { askNothing, atRate } from '../harness/open-load.ts';
import { freePort, onMeasuredCore, start } from '../harness/programs.ts';
import type { BenchOptions } from '../harness/row.ts';
import { targets } from '../harness/targets.ts';

/** P18, first half: p99 of discovery over HTTP with a million entries, at a fixed rate of arrivals. */
export async function discover({ size, say }: BenchOptions): Promise<LatencyTable> {
  const entries = { full: 1_000_000, quick: 50_000, brief: 2_000 }[size];
  const requests = { full: 3_000, quick: 200, brief: 20 }[size];
  const folder = newFolder('discover');
  // PostgreSQL runs as a user of its own when this is run by root, and must be able to pass through.
  chmodSync(folder, 0o711);
  const stops: (() => Promise<void>)[] = [];
  try {
    const copy = await copiedDatabase();
    const postgres = await onMeasuredCore(() => disposableDatabase(folder, copy));
    stops.push(() => postgres.stop());
    const origin = `http://127.0.0.1:${await freePort()}`;
    const controlPlane = start({
      core: measuredCore,
      command: [process.execPath, program, 'control-plane'],
      environment: {
        PORT: new URL(origin).port,
        DATABASE_URL: postgres.url,
        MASTER_KEY: randomBytes(32).toString('base64url'),
        DATA_DIR: join(folder, 'control-plane'),
        LOG_LEVEL: 'warn',
      },
    });
    stops.push(() => controlPlane.stop());
    await ready(origin, controlPlane);
    // The connection is silent for minutes while the database fills.
    const sql = connect({ url: postgres.url, connectionsMax: 1, silenceMsMax: 600_000 });
    stops.push(() => sql.end({ timeout: 1 }));
    say(`filling the database with ${entries.toLocaleString('en-US')} entries`);
    await fillMarket(sql, entries);

    const questions = Array.from({ length: requests }, questionMaker());
    // Each of the pool's connections plans each question a few times before PostgreSQL keeps the plan.
    await ask(origin, questions.slice(0, requests / 5), say);
    const [answers, floor] = await Promise.all([
      ask(origin, questions, say),
      askNothing(
        { origin, perSecond: arrivalsPerSecond / questionsPerNothing },
        requests / questionsPerNothing,
      ),
    ]);
    return {
      kind: 'latency',
      row: 'discover',
      title: `Discovery among ${entries.toLocaleString('en-US')} catalog entries`,
      lines: linesOf(answers),
      floor: latencyLine(floor, { what: 'GET /livez, in between', target: null, remark: 'no work at all' }),
      plans: await plansOf(sql),
      notes,
    };
  } finally {
    for (const stop of stops.toReversed()) await stop();
    removeFolder(folder);
  }
}

const arrivalsPerSecond = 50;

const notes = [
  `Open loop: ${arrivalsPerSecond} requests a second, each timed from the moment it was due. Control plane and PostgreSQL, with its default settings, share one core; the generator has the other.`,
  'A question asks for a permission key (6 of 10), an area (2.5) or a category (1.5), the crowded ones more often; each filter is set in one of four, any sort and the first page; a tenth asks for a later page.',
  'A range is a limit on price, uptime or response time: those are counted entry by entry. Other totals are kept.',
];

/** One in five questions is followed by one for nothing. */
const questionsPerNothing = 5;

/** The kinds of question, a line each. */
type Kind = 'a permission key' | 'an area' | 'a category';

interface Question {
  readonly kind: Kind;
  readonly query: DiscoveryQuery;
}

const isRanged = ({ query }: Question): boolean =>
  query.max_price_cents !== undefined ||
  query.min_uptime_bp !== undefined ||
  query.max_response_time_ms !== undefined;

/** The same questions on every run. */
function questionMaker(): () => Question {
  const chance = mulberry32(7);
  const below = (bound: number) => Math.floor(chance() * bound);
  const oneOf = <T>(list: readonly [T, ...T[]]): T => list[below(list.length)] ?? list[0];
  const sometimes = <T>(value: T): T | null => (chance() < 0.25 ? value : null);
  return () => {
    const [kind, capability] = subject(chance());
    const filters = {
      max_price_cents: sometimes(below(10_000)),
      min_uptime_bp: sometimes(oneOf([9_000, 9_500, 9_900, 9_990] as const)),
      max_response_time_ms: sometimes(oneOf([100, 500, 2_000] as const)),
      pricing_model: sometimes(oneOf(['per_call', 'per_minute', 'subscription'] as const)),
      min_security_profile: sometimes(oneOf(['L2', 'L3'] as const)),
    };
    const set = Object.entries(filters).filter(([, value]) => value !== null);
    const query: DiscoveryQuery = {
      capability,
      ...Object.fromEntries(set),
      currency: 'USD',
      sort: oneOf(discoverySorts),
      limit: 50,
      offset: chance() < 0.1 ? 50 * below(10) : 0,
    };
    return { kind, query };
  };

  function subject(which: number): readonly [Kind, string] {
    const area = areaName(crowded(chance(), 'areas'));
    if (which < 0.6) return ['a permission key', `${area}:action${below(20)}`];
    if (which < 0.85) return ['an area', area];
    return ['a category', categoryName(crowded(chance(), 'categories'))];
  }
}

/** A small generator of known quality (Tommy Ettinger's mulberry32): numbers from [0, 1). */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Answer extends Question {
  readonly timeMs: number;
  readonly total: number;
}

async function ask(
  origin: string,
  questions: readonly Question[],
  say: (line: string) => void,
): Promise<readonly Answer[]> {
  say(`asking ${questions.length} questions at ${arrivalsPerSecond} a second`);
  return atRate({ origin, perSecond: arrivalsPerSecond }, questions, async (pool, question) => {
    const text = Object.entries(question.query).map(([name, value]): [string, string] => [
      name,
      String(value),
    ]);
    const path = `/v1/discover?${new URLSearchParams(text)}`;
    const { statusCode, body } = await pool.request({ method: 'GET', path });
    const answer = (await body.json()) as { readonly total: number };
    if (statusCode !== 200) throw new Error(`GET ${path} answered ${statusCode} ${JSON.stringify(answer)}`);
    return { ...question, total: answer.total };
  });
}

function linesOf(answers: readonly Answer[]): readonly LatencyLine[] {
  const line = (what: string, is: (answer: Answer) => boolean, target: LatencyLine['target'] = null) => {
    const those = answers.filter(is);
    const totals = those.map(({ total }) => total).sort((a, b) => a - b);
    const middle = totals[Math.floor(totals.length / 2)] ?? 0;
    const most = totals.at(-1) ?? 0;
    return latencyLine(
      those.map(({ timeMs }) => timeMs),
      { what, target, remark: `matches: median ${middle}, at most ${most.toLocaleString('en-US')}` },
    );
  };
  const kinds: readonly Kind[] = ['a permission key', 'an area', 'a category'];
  return [
    line('all questions', () => true, { name: 'P18', p99MsMax: targets.P18.wanted }),
    ...kinds.map((kind) => line(kind, (answer) => answer.kind === kind)),
    line('without a range', (answer) => !isRanged(answer)),
    line('with a range', isRanged),
  ];
}

/** Of the largest category, where there is most to go wrong. */
async function plansOf(sql: Database): Promise<LatencyTable['plans']> {
  const page = { currency: 'USD', limit: 50, offset: 0 } as const;
  const query: DiscoveryQuery = { capability: categoryName(0), sort: 'price_asc', ...page };
  const explained = async (
    of: string,
    text: ReturnType<typeof offersQuery> | ReturnType<typeof totalQuery>,
  ) => {
    const rows = await sql<
      { 'QUERY PLAN': string }[]
    >`EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY ON) ${text}`;
    return { of, text: rows.map((row) => row['QUERY PLAN']).join('\n') };
  };
  const fast: DiscoveryQuery = { ...query, max_response_time_ms: 100, min_uptime_bp: 9_990 };
  return [
    await explained('The first page of a category, the cheapest first', offersQuery(sql, query)),
    await explained('Its total', totalQuery(sql, query)),
    await explained(
      'The first page by price, the dearest first',
      offersQuery(sql, { ...query, sort: 'price_desc' }),
    ),
    await explained('The first page with two ranges', offersQuery(sql, { ...fast, sort: 'response_asc' })),
    await explained('The total with two ranges', totalQuery(sql, fast)),
  ];
}
