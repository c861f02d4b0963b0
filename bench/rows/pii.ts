import { piiTypes } from '../../shared/model/constraints.ts';
import { limits } from '../../shared/model/limits.ts';
import { redactRequest } from '../../shared/pii/redact-request.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import { interleaved, type Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';

/**
 * The scan for personal data beside JSON.parse of the same body. A ratio of 0.50 in the line of JSON.parse:
 * the scan takes twice as long.
 */
export async function pii({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 3, brief: 1 }[size];
  const secondsEach = { full: 0.5, quick: 0.1, brief: 0.01 }[size];
  const cases = bodies.map(({ name, request }) => {
    const text = JSON.stringify(request);
    const body = `${name}, ${Buffer.byteLength(text)} bytes`;
    return {
      scan: { name: `scan: ${body}`, run: () => scanPii(request, piiTypes) },
      redact: { name: `redact: ${body}`, run: () => redactRequest(request, piiTypes) },
      parse: { name: `JSON.parse: ${body}`, run: (): unknown => JSON.parse(text) },
    };
  });
  const sides = cases.flatMap(({ scan, redact, parse }) => [scan, redact, parse].map(sideOf));
  const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
  const lineOf = (name: string, ours: string | null) =>
    tableLine(
      { name, does: '', doesNot: '', target: ours === null ? null : { name: 'orientation', wanted: null } },
      figures,
      ours ?? name,
    );
  const lines = cases.flatMap(({ scan, redact, parse }) => [
    lineOf(scan.name, null),
    lineOf(redact.name, scan.name),
    lineOf(parse.name, scan.name),
  ]);
  const notes = [
    'Each ratio is the scan above divided by this line: 0.50 beside JSON.parse means that the scan takes twice as long as parsing the same body.',
    'What a request costs is in the columns by processor time; those by the clock grow with whatever else runs on the machine.',
    'All six types are looked for. The mode `redact` pays for the redaction besides the scan, and only where something was found.',
  ];
  const title = 'Scan of a request for personal data';
  return { row: 'pii', title, unit: 'requests/s', rounds, secondsEach, lines, skipped: [], notes };
}

/** Calls between two looks at the clock, which costs as much as the shortest of them. */
const callsPerLook = 50;

const sideOf = ({ name, run }: { readonly name: string; readonly run: () => unknown }): Side => ({
  name,
  measure: async (seconds) => {
    repeat(run, Math.min(0.05, seconds));
    const cpuBefore = process.cpuUsage();
    const before = performance.now();
    const calls = repeat(run, seconds);
    const elapsedS = (performance.now() - before) / 1_000;
    const { user, system } = process.cpuUsage(cpuBefore);
    const cpuS = (user + system) / 1_000_000;
    return { perSecond: calls / elapsedS, perCpuSecond: calls / cpuS, coresBusy: cpuS / elapsedS };
  },
});

/** Returns the number of calls. */
function repeat(run: () => unknown, seconds: number): number {
  const endsAt = performance.now() + seconds * 1_000;
  let lastResult: unknown;
  let calls = 0;
  for (; performance.now() < endsAt; calls += callsPerLook) {
    for (let call = 0; call < callsPerLook; call += 1) lastResult = run();
  }
  // Used, so that the compiler drops no call.
  if (lastResult === undefined) throw new Error('a measured call answers something');
  return calls;
}

const order = {
  permission_key: 'orders:create',
  amount: 12.5,
  currency: 'USD',
  domain: 'api.example.com',
  idempotency_key: '6f9619ff-8b86-4011-b42d-00c04fc964ff',
};
const item = {
  sku: 'A-1027',
  quantity: 3,
  price: 4.15,
  title: 'Stapler, long reach, 240 mm',
  note: 'leave at the door',
};
const customer = {
  name: 'Jane Doe',
  email: 'jane.doe@example.com',
  phone: '+49 30 23125001',
  ip: '192.0.2.17',
  iban: 'DE89 3704 0044 0532 0130 00',
};
const sentence = 'The parcel of 12 June was delivered at 10:30 to the neighbours, who signed for it. ';

const bodies: readonly { readonly name: string; readonly request: Readonly<Record<string, unknown>> }[] = [
  { name: 'an order', request: { ...order, order: { sku: 'A-1027', quantity: 3 } } },
  { name: 'with a list', request: { ...order, items: Array.from({ length: 7 }, () => item) } },
  { name: 'with a customer', request: { ...order, customer, items: Array.from({ length: 6 }, () => item) } },
  {
    name: 'as long as is scanned',
    request: {
      ...order,
      text: sentence.repeat(Math.floor((limits.piiScanCharsMax - 300) / sentence.length)),
    },
  },
];
