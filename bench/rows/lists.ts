import {
  everything,
  numbersAsked,
  type PageQuery,
  pageQuery,
} from '../../control-plane/attestations/list-attestations.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type AuditStage, setAuditStage } from '../harness/audit-stage.ts';
import { type LatencyTable, latencyLine } from '../harness/latency-table.ts';
import { askNothing, atRate } from '../harness/open-load.ts';
import type { BenchOptions } from '../harness/row.ts';
import { targets } from '../harness/targets.ts';
import { addUnsignedRecords } from '../harness/unsigned-records.ts';

const arrivalsPerSecond = 50;
const pagesPerNothing = 5;
const startMs = Date.parse('2026-01-01T00:00:00Z');

/**
 * P18, second half: p99 of the first page of attestations over HTTP with ten million of them, whatever is
 * asked for.
 */
export async function lists({ size, say }: BenchOptions): Promise<LatencyTable> {
  const records = { full: 10_000_000, quick: 100_000, brief: 100_000 }[size];
  const requestsEach = { full: 200, quick: 20, brief: 2 }[size];
  const stage = await setAuditStage({ passports: 100, gates: 20 });
  try {
    await fill(stage, records, say);
    const questions = questionsAbout(stage, records);
    // Each connection plans each question a few times before PostgreSQL keeps the plan.
    await ask(stage, questions, { requestsEach: { full: 20, quick: 3, brief: 1 }[size], say });
    const nothings = { origin: stage.origin, perSecond: arrivalsPerSecond / pagesPerNothing };
    const [answers, floor] = await Promise.all([
      ask(stage, questions, { requestsEach, say }),
      askNothing(nothings, (requestsEach * questions.length) / pagesPerNothing),
    ]);
    return {
      kind: 'latency',
      row: 'lists',
      title: `Pages among ${records.toLocaleString('en-US')} attestations`,
      lines: [
        latencyLine(
          answers.map(({ timeMs }) => timeMs),
          { what: 'all lists', target: { name: 'P18', p99MsMax: targets.P18.wanted }, remark: '' },
        ),
        ...questions.map(({ what }) => {
          const those = answers.filter((answer) => answer.what === what);
          return latencyLine(
            those.map(({ timeMs }) => timeMs),
            { what, target: null, remark: `${those[0]?.found} on the page` },
          );
        }),
      ],
      floor: latencyLine(floor, { what: 'GET /livez, in between', target: null, remark: 'no work at all' }),
      plans: await plansOf(stage),
      notes,
    };
  } finally {
    await stage.stop();
  }
}

const notes = [
  `Open loop: ${arrivalsPerSecond} requests a second, each timed from the moment it was due, of all lists in turn. Control plane on one core, PostgreSQL with its default settings and the generator on the other.`,
  'All records belong to one account: 100 passports at 20 gates, one record in ten a BLOCK, one in 10,000 a SUSPEND. They are made by the database and signed by nobody, which a list does not look at.',
];

/** In short steps; then ANALYZE, as autovacuum does after a while. */
async function fill(
  { sql, owner, passportIds, gateIds }: AuditStage,
  records: number,
  say: (line: string) => void,
) {
  const step = 100_000;
  for (let from = 0; from < records; from += step) {
    await addUnsignedRecords(sql, { owner, passportIds, gateIds, from, count: step, startMs });
    if ((from + step) % 1_000_000 === 0) say(`${(from + step).toLocaleString('en-US')} records`);
  }
  await sql.begin(async (tx) => {
    await tx`SELECT set_config('statement_timeout', '0', true)`;
    await tx`ANALYZE records`;
  });
}

interface Question {
  readonly what: string;
  /** Of `/v1/attestations`, each time another one of its kind. */
  readonly query: (turn: number) => string;
}

function questionsAbout({ passportIds, gateIds }: AuditStage, records: number): readonly Question[] {
  const some = (ids: readonly string[], turn: number) => must(ids[turn % ids.length], 'there are some');
  const time = (offset: number) => new Date(startMs + offset).toISOString();
  return [
    { what: 'everything', query: () => '' },
    { what: 'a decision', query: () => 'decision=BLOCK' },
    { what: 'a rare decision', query: () => 'decision=SUSPEND' },
    { what: 'a passport', query: (turn) => `passport_id=${some(passportIds, turn)}` },
    { what: 'a gate', query: (turn) => `gate_id=${some(gateIds, turn)}` },
    {
      what: 'a passport at a gate',
      query: (turn) => `passport_id=${some(passportIds, turn)}&gate_id=${some(gateIds, turn * 7)}`,
    },
    {
      what: 'a rare decision of a passport',
      query: (turn) => `passport_id=${some(passportIds, turn)}&decision=SUSPEND`,
    },
    {
      what: 'a second, any time',
      query: (turn) => {
        const from = (turn * 7_919_000) % records;
        return `since=${time(from)}&until=${time(from + 1_000)}`;
      },
    },
    { what: 'the oldest', query: () => `until=${time(30)}` },
    { what: 'the largest page', query: () => 'limit=500' },
    { what: 'a reason', query: () => 'reason=spend_limit_exceeded' },
    { what: 'a reason that no record has', query: () => 'reason=pii_detected' },
    { what: 'a permission key that few records have', query: () => 'permission_key=orders:refund' },
    { what: 'an agent', query: (turn) => `agent_id=agent-${turn % passportIds.length}` },
  ];
}

interface Answer {
  readonly what: string;
  readonly timeMs: number;
  readonly found: number;
}

async function ask(
  { origin, headers }: AuditStage,
  questions: readonly Question[],
  options: { readonly requestsEach: number; readonly say: (line: string) => void },
): Promise<readonly Answer[]> {
  const asked = Array.from({ length: options.requestsEach }, (_, turn) =>
    questions.map(({ what, query }) => ({ what, path: `/v1/attestations?${query(turn)}` })),
  ).flat();
  options.say(`asking for ${asked.length} pages at ${arrivalsPerSecond} a second`);
  return atRate({ origin, perSecond: arrivalsPerSecond }, asked, async (pool, { what, path }) => {
    const { statusCode, body } = await pool.request({ method: 'GET', path, headers });
    const answer = (await body.json()) as { readonly attestations: readonly unknown[] };
    if (statusCode !== 200) throw new Error(`GET ${path} answered ${statusCode} ${JSON.stringify(answer)}`);
    return { what, found: answer.attestations.length };
  });
}

/** Plans of the lists where a bad plan would read most rows. */
async function plansOf({ sql, owner, passportIds, gateIds }: AuditStage): Promise<LatencyTable['plans']> {
  const explained = async (of: string, part: Partial<PageQuery>) => {
    const query = { ...everything, limit: 51, ...part };
    const rows = await sql<{ 'QUERY PLAN': string }[]>`
      EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS, SUMMARY ON)
      ${pageQuery(sql, owner, query, await numbersAsked(sql, owner, query))}`;
    return { of, text: rows.map((row) => row['QUERY PLAN']).join('\n') };
  };
  const [gateId = null] = gateIds;
  return [
    await explained('The first page of everything', {}),
    await explained('A rare decision', { decision: 'SUSPEND' }),
    await explained('A passport at a gate', { passportIds: passportIds.slice(0, 1), gateId }),
    await explained('The oldest', { untilMs: (startMs + 30) as UnixMillis }),
    await explained('A permission key that few records have', { permissionKey: 'orders:refund' }),
  ];
}
