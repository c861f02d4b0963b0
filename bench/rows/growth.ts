import { join } from 'node:path';
import { must } from '../../shared/errors/assert.ts';
import { chargedSide } from '../harness/charged-side.ts';
import { type Contender, type Contest, contest, type Scene } from '../harness/contest.ts';
import type { ControlPlane, Installation } from '../harness/installation.ts';
import { addGates, seededGateId } from '../harness/market-and-gates.ts';
import { mebibytes, memoryOf } from '../harness/memory.ts';
import { addRevocations, issuePassports } from '../harness/passports.ts';
import { requestOfBytes, type Sent } from '../harness/requests.ts';
import type { Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import type { Table } from '../harness/table.ts';
import { allShipped, benchGate, headersOf } from '../harness/warm-load.ts';
import { drive, type Load } from '../harness/wrk.ts';

/** What a million revocations may add to the memory of a sidecar (contract §11). */
const revocationBytesMax = 64 * 1024 ** 2;

/** How throughput and memory of a sidecar change as the work grows: a table for each way to grow. */
export async function growth(options: BenchOptions): Promise<readonly Table[]> {
  const tables: Table[] = [];
  for (const grow of [byRequestSize, byConstraints, byBatch, byGates, byPassports, byRevocations])
    tables.push(await grow(options));
  return tables;
}

/** By the size of the run. */
const gatesOfSize = { full: [1, 100, 10_000, 100_000], quick: [1, 1_000], brief: [10] } as const;
const passportsOfSize = {
  full: [1, 1_000, 50_000, 100_000, 1_000_000],
  quick: [1, 5_000],
  brief: [100],
} as const;
const revocationsOfSize = {
  full: [0, 10_000, 100_000, 1_000_000],
  quick: [0, 10_000],
  brief: [100],
} as const;

type Grow = (options: BenchOptions) => Promise<Table>;

/** Each line is compared with the first, the smallest. */
const line = (index: number): Pick<Contender, 'does' | 'doesNot' | 'target'> => ({
  ...{ does: '', doesNot: '' },
  target: index === 0 ? null : { name: 'growth', wanted: null },
});

const ratioNote =
  'The ratio of a line is what the first line does in a second divided by what it does: 2.00 says that a request costs twice as much.';

interface Stage {
  readonly installation: Installation;
  readonly gateId: string;
  readonly passport: string;
  readonly request: object;
}

async function stageIn(scene: Scene, seed?: (controlPlane: ControlPlane) => Promise<void>): Promise<Stage> {
  const installation = await scene.installed(seed === undefined ? { isOwn: true } : { seed });
  return { installation, ...(await benchGate(installation)) };
}

const sent = ({ installation }: Stage, gateId: string, body: object, below = ''): Sent => ({
  url: `${installation.sidecarOrigin}/v1/gates/${gateId}/check${below}`,
  headers: headersOf(installation),
  body: JSON.stringify(body),
});

function contender(
  scene: Scene,
  stage: Stage,
  of: {
    readonly index: number;
    readonly name: string;
    readonly requests: readonly Sent[];
    readonly gateIds: readonly string[];
  },
): Contender {
  const load: Load = {
    ...must(of.requests[0], 'there is a request'),
    scriptPath: join(scene.folder, `growth-${of.index}.lua`),
    ...(of.requests.length > 1 && { variety: of.requests }),
  };
  return {
    ...{ name: of.name, program: stage.installation.sidecar, load, ...line(of.index) },
    finish: () => allShipped(stage.installation, of.gateIds),
  };
}

const byRequestSize: Grow = (options) =>
  contest(
    options,
    {
      row: 'growth-request-size',
      title: 'Growth: the size of the request',
      secondsEach: 2,
      notes: [ratioNote],
    },
    async (scene) => {
      const stage = await stageIn(scene);
      const { gateId, passport } = stage;
      const sizes = [0.2, 1, 4, 16, 60];
      return {
        contenders: sizes.map((kib, index) => {
          const requests = [sent(stage, gateId, { passport, request: requestOfBytes(kib * 1024) })];
          return contender(scene, stage, { index, name: `${kib} KiB`, requests, gateIds: [gateId] });
        }),
      };
    },
  );

const byConstraints: Grow = (options) =>
  contest(
    options,
    {
      row: 'growth-constraints',
      title: 'Growth: constraints of the gate',
      secondsEach: 2,
      notes: [ratioNote],
    },
    async (scene) => {
      const stage = await stageIn(scene);
      const { passport, request, installation } = stage;
      const big = 1_000_000_000;
      const domain = { allowed_domains: ['api.example.com'] };
      const perTransaction = { spend_limits: { per_transaction_usd: 500 } };
      const money = { spend_limits: { per_transaction_usd: 500, daily_usd: big, monthly_usd: big } };
      const rates = {
        rate_limits: { requests_per_minute: big, requests_per_hour: big, requests_per_day: big },
      };
      const approvals = { approvals: { above_usd: 400 } };
      const pii = { pii_controls: { mode: 'log_only' } };
      const steps: readonly (readonly [string, object])[] = [
        ['none', {}],
        ['domains', domain],
        ['and a limit per transaction', { ...domain, ...perTransaction }],
        ['and five windows', { ...domain, ...money, ...rates }],
        ['and approvals', { ...domain, ...money, ...rates, ...approvals }],
        ['and personal data: all', { ...domain, ...money, ...rates, ...approvals, ...pii }],
      ];
      const gateIds: string[] = [stage.gateId];
      for (const [name, constraints] of steps) {
        const gate = await installation.api('POST', '/gates', { name, trust_level: 'L1', constraints });
        gateIds.push(String(gate['gate_id']));
      }
      return {
        contenders: steps.map(([name], index) => {
          const requests = [sent(stage, must(gateIds[index + 1], 'it was made'), { passport, request })];
          return contender(scene, stage, { index, name, requests, gateIds });
        }),
      };
    },
  );

const byBatch: Grow = (options) =>
  contest(
    options,
    {
      row: 'growth-batch',
      title: 'Growth: passports in a batch',
      unit: 'decisions/s',
      secondsEach: 2,
      notes: [ratioNote, 'Each check of a batch is about another passport that is known.'],
    },
    async (scene) => {
      const stage = await stageIn(scene);
      const { gateId, request, installation } = stage;
      const sizes = [1, 8, 32, 128, 256];
      const tokens = await issuePassports(installation, 256);
      return {
        contenders: sizes.map((size, index) => {
          const checks = tokens.slice(0, size).map((passport) => ({ passport, request }));
          const requests = [sent(stage, gateId, { checks }, '/batch')];
          const name = size === 1 ? 'one passport' : `${size} passports`;
          const one = contender(scene, stage, { index, name, requests, gateIds: [gateId] });
          // Batches under way at the end are decided and not counted: as few checks for each size.
          const connections = Math.min(64, Math.ceil(underWayMax / size));
          const load = { ...one.load, connections, permitsEach: size };
          return { ...one, side: () => batchSide({ ...one, load }, size) };
        }),
      };
    },
  );

/** Checks of batches, as many at once whatever the size of a batch. */
const underWayMax = 512;

const batchSide = ({ name, program, load, finish }: Contender, size: number): Side =>
  chargedSide({
    ...{ name, programs: [program], finish, underWayMax },
    drive: async (seconds) => {
      const driven = await drive(load, seconds);
      return { ...driven, done: driven.done * size };
    },
  });

/** Asked at in turn, where there are as many. */
const gatesAsked = 1_000;

const byGates: Grow = (options) =>
  contest(
    options,
    {
      row: 'growth-gates',
      title: 'Growth: gates of the account',
      secondsEach: 2,
      notes: [
        ratioNote,
        `Requests go to ${gatesAsked.toLocaleString('en-US')} of the gates in turn, where there are as many.`,
      ],
    },
    (scene) =>
      ofSizes(scene, gatesOfSize[scene.size], 'gates', async (size, index) => {
        const stage = await stageIn(scene, (controlPlane) => seedGates(controlPlane, size - 1));
        const { gateId, passport, request } = stage;
        const others = Array.from({ length: Math.min(size, gatesAsked) - 1 }, (_, i) => seededGateId(i + 1));
        const gateIds = [gateId, ...others];
        const requests = gateIds.map((id) => sent(stage, id, { passport, request }));
        return { stage, one: contender(scene, stage, { index, name: `${size} gates`, requests, gateIds }) };
      }),
  );

/** Requests that the generator holds at once: 45 MB. */
const shownAtOnce = 50_000;

const byPassports: Grow = (options) =>
  contest(
    options,
    {
      row: 'growth-passports',
      title: 'Growth: passports that the sidecar has seen',
      secondsEach: 2,
      notes: [
        ratioNote,
        `Each passport is shown once before, ${shownAtOnce.toLocaleString('en-US')} of them at a time, and all its records are shipped; then a hundred of the last come in turn. The sidecar remembers 50,000 at most, so that its memory ends to grow there.`,
      ],
    },
    (scene) =>
      ofSizes(scene, passportsOfSize[scene.size], 'passports', async (size, index) => {
        const stage = await stageIn(scene);
        const { gateId, request, installation } = stage;
        let last: readonly Sent[] = [];
        for (let shown = 0; shown < size; shown += last.length) {
          const tokens = await issuePassports(installation, Math.min(shownAtOnce, size - shown));
          last = tokens.map((passport) => sent(stage, gateId, { passport, request }));
          await showEach(scene, last);
          await allShipped(installation, [gateId]);
          scene.say(`${shown + last.length} of ${size} passports were shown`);
        }
        const requests = last.slice(-100);
        const name = `${size} passports`;
        return { stage, one: contender(scene, stage, { index, name, requests, gateIds: [gateId] }) };
      }),
  );

/** Sends until every request was sent once, in turn. */
async function showEach(scene: Scene, requests: readonly Sent[]): Promise<void> {
  const load: Load = {
    ...must(requests[0], 'there is a request'),
    ...{ variety: requests, scriptPath: join(scene.folder, 'show.lua') },
  };
  for (let sentSoFar = 0; sentSoFar < requests.length; )
    sentSoFar += (await drive(load, scene.size === 'brief' ? briefS : 1)).done;
}

const byRevocations: Grow = async (options) => {
  return contest(
    options,
    { row: 'growth-revocations', title: 'Growth: revoked passports', secondsEach: 2, notes: [ratioNote] },
    (scene) =>
      ofSizes(scene, revocationsOfSize[scene.size], 'revocations', async (size, index) => {
        const stage = await stageIn(scene, (controlPlane) => addRevocations(controlPlane, size));
        const { gateId, passport, request } = stage;
        const requests = [sent(stage, gateId, { passport, request })];
        const name = `${size} revocations`;
        return { stage, one: contender(scene, stage, { index, name, requests, gateIds: [gateId] }) };
      }),
  );
};

/** All sizes at once, so that they can be measured in turns; then the memory of each sidecar. */
async function ofSizes(
  scene: Scene,
  sizes: readonly number[],
  unit: string,
  make: (size: number, index: number) => Promise<{ readonly stage: Stage; readonly one: Contender }>,
): Promise<Contest> {
  const made: { readonly size: number; readonly stage: Stage; readonly one: Contender }[] = [];
  for (const [index, size] of sizes.entries()) {
    scene.say(`preparing ${size.toLocaleString('en-US')} ${unit}`);
    made.push({ size, ...(await make(size, index)) });
  }
  const memory = (stage: Stage) => memoryOf(stage.installation.sidecar.pid).now;
  return {
    contenders: made.map(({ one }) => one),
    afterwards: () => {
      const least = memory(must(made[0], 'there is one').stage);
      return made.map(({ size, stage }, index) => {
        const bytes = memory(stage);
        const added = index === 0 ? '' : `, ${mebibytes(bytes - least)} more than with the least`;
        const isBounded = unit === 'revocations' && index > 0;
        const bound = isBounded
          ? ` (at most ${mebibytes(revocationBytesMax)}: ${bytes - least <= revocationBytesMax ? 'met' : '**missed**'})`
          : '';
        return `Memory of the sidecar with ${size.toLocaleString('en-US')} ${unit}, after the load: ${mebibytes(bytes)} MiB${added}${bound}.`;
      });
    },
  };
}

async function seedGates(controlPlane: ControlPlane, count: number): Promise<void> {
  const sql = controlPlane.openDatabase();
  try {
    await addGates(sql, count);
  } finally {
    await sql.end({ timeout: 1 });
  }
}
