import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { discover } from './discover.ts';
import { exportOf } from './export.ts';
import { keyed } from './keyed.ts';
import { type LatencyTable, latencyChart, latencyMarkdown } from './latency-table.ts';
import { leases } from './leases.ts';
import { lists } from './lists.ts';
import { batch, stream } from './many-checks.ts';
import { micro } from './micro.ts';
import { pii } from './pii.ts';
import { findProgram, leaveMeasuredCore } from './programs.ts';
import { proxy } from './proxy.ts';
import type { Row } from './row.ts';
import { standings } from './standings.ts';
import { start } from './start.ts';
import { chart, type Machine, markdown, type Table } from './table.ts';
import { verify } from './verify.ts';
import { warm } from './warm.ts';
import { webhooks } from './webhooks.ts';

const rows: readonly Row[] = [
  { name: 'warm', describe: 'P2, P3: decisions about a known passport, one core', run: warm },
  { name: 'leases', describe: 'P12: limits on five windows, and calls for leases', run: leases },
  { name: 'keyed', describe: 'P24: requests with an idempotency key, closed and open loop', run: keyed },
  { name: 'discover', describe: 'P18: discovery among a million catalog entries', run: discover },
  { name: 'lists', describe: 'P18: pages among ten million attestations', run: lists },
  { name: 'export', describe: 'P19: export of a million records and its verification', run: exportOf },
  {
    name: 'webhooks',
    describe: 'events to ten endpoints, one of them dead: throughput and delay',
    run: webhooks,
  },
  { name: 'proxy', describe: 'P22: nginx with forward auth and nginx alone, same core', run: proxy },
  { name: 'stream', describe: 'P20: decisions over streams and by single requests, one core', run: stream },
  { name: 'batch', describe: 'P21: decisions in batches and by single requests, one core', run: batch },
  { name: 'verify', describe: 'P6: signature checks by the pool, one core', run: verify },
  { name: 'micro', describe: 'the tricks of the hot path and their plain forms', run: micro },
  {
    name: 'standings',
    describe: 'a million revocations at a sidecar: look-up, memory, snapshot',
    run: standings,
  },
  {
    name: 'start',
    describe: 'loading a program, with packed dependencies and as installed',
    run: start,
  },
  { name: 'pii', describe: 'the scan of a request for personal data, beside JSON.parse', run: pii },
];

const help = `npm run bench -- [name ...] [--quick] [--help]

Measures ratios between this service and something else on this machine, in turns, and writes them to bench/results/.

${rows.map(({ name, describe }) => `  ${name.padEnd(9)} ${describe}`).join('\n')}

  --quick  fewer and shorter rounds
Needs two cores, taskset, and for some rows wrk and redis-server (Debian: apt-get install wrk redis-server).
`;

const say = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

async function main(): Promise<number> {
  const words = process.argv.slice(2);
  if (words.includes('--help')) {
    process.stdout.write(help);
    return 0;
  }
  const names = words.filter((word) => word !== '--quick');
  const unknown = names.filter((name) => rows.every((row) => row.name !== name));
  if (unknown.length > 0) {
    say(`There is no row named ${unknown.join(', ')}.\n\n${help}`);
    return 2;
  }
  if (cpus().length < 2 || findProgram('taskset') === null) {
    say(
      'The bench needs two cores, and taskset (Debian: util-linux) to keep what is measured on one of them.',
    );
    return 1;
  }
  leaveMeasuredCore();
  for (const row of rows.filter(({ name }) => names.length === 0 || names.includes(name))) {
    say(`\n${row.name}: ${row.describe}`);
    const table = await row.run({ isQuick: words.includes('--quick'), say });
    const page = write(table);
    process.stdout.write(`\n${page}\n`);
  }
  return 0;
}

/** Returns the table as Markdown. */
function write(table: Table | LatencyTable): string {
  const folder = join(projectRoot(), 'bench', 'results');
  mkdirSync(folder, { recursive: true });
  const machine = thisMachine();
  const isLatency = 'kind' in table;
  const page = isLatency ? latencyMarkdown(table, machine) : markdown(table, machine);
  writeFileSync(join(folder, `${table.row}.json`), `${JSON.stringify({ machine, ...table }, null, 2)}\n`);
  writeFileSync(join(folder, `${table.row}.md`), page);
  writeFileSync(join(folder, `${table.row}.svg`), isLatency ? latencyChart(table) : chart(table));
  return page;
}

const thisMachine = (): Machine => ({
  cpu: cpus()[0]?.model ?? 'unknown processor',
  cores: cpus().length,
  node: process.versions.node,
  kernel: release(),
  measuredAt: new Date().toISOString(),
});

/** Compiled, this file lies a folder deeper than its source. */
function projectRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json')) || !isOurs(join(folder, 'package.json')))
    folder = dirname(folder);
  return folder;
}

const isOurs = (path: string): boolean => JSON.parse(readFileSync(path, 'utf8')).name === 'agent-trust';

process.exitCode = await main();
