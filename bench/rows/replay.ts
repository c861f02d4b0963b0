import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'undici';
import { commandSide } from '../harness/export-command.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { issuePassports } from '../harness/passports.ts';
import { count, interleaved, summary } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { allShipped, domain, headersOf, request } from '../harness/warm-load.ts';

const passports = 1_000;
const batchChecks = 32;
/** Batches that are asked for at once. */
const atOnce = 8;
/** One request in so many names a domain that the gate does not allow. */
const blockedEvery = 10;

/** P34: records that a replay decides again, beyond what it takes to verify them. */
export async function replay({ size, say }: BenchOptions): Promise<Table> {
  const batches = { full: 6_250, quick: 1_000, brief: 40 }[size];
  const records = batches * batchChecks;
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const folder = newFolder('replay');
  const installation = await install();
  try {
    const gateId = await limitedGate(installation);
    const tokens = await issuePassports(installation, passports);
    say(`making ${count(records)} decisions`);
    await decideAll(installation, { gateId, tokens, batches });
    await allShipped(installation, [gateId]);
    const file = join(folder, 'export.jsonl');
    const jwks = join(folder, 'jwks.json');
    await writeFile(jwks, await installation.jwks());
    await writeFile(file, await exported(installation));

    const sideOf = (command: 'replay' | 'verify') => commandSide(command, { file, jwks, records }).side;
    const [again, verify] = [sideOf('replay'), sideOf('verify')];
    const figures = await interleaved([again, verify], { rounds, seconds: 0, say });
    const secondsOf = ({ name }: { readonly name: string }) =>
      (figures.get(name) ?? []).map(({ perCpuSecond }) => 1 / perCpuSecond);
    const verifying = secondsOf(verify);
    const beyond = secondsOf(again).map((seconds, round) => seconds - (verifying[round] ?? Number.NaN));
    const secondsBeyond = summary(beyond).median;
    // Of two figures that nearly are one the difference says nothing.
    const perSecond = secondsBeyond > 0 ? 1 / secondsBeyond : Number.NaN;
    return {
      row: 'replay',
      title: `${count(records)} decisions of an export, decided again on one core`,
      unit: 'records/s',
      rounds,
      secondsEach: 0,
      lines: [
        {
          name: again.name,
          does: 'verifies the file, then decides each record again and adds up what was taken of each limit',
          doesNot: 'stop after the seconds of a round: it takes the whole file each time',
          target: null,
        },
        {
          name: verify.name,
          does: 'spelling, members, hashes, links, signatures, keys and counts of every record',
          doesNot: 'decide',
          target: { name: 'orientation', wanted: null },
        },
      ].map((line) => tableLine(line, figures, again.name)),
      skipped: [],
      notes: [
        `Beyond the verification: ${count(perSecond)} records/s by the processor time of the one less that of the other, the median of the rounds.`,
        `${count(passports)} passports at a gate with limits of money and requests; one request in ${blockedEvery} was a BLOCK.`,
      ],
      judged: [{ target: 'P34', figure: perSecond, disturbed: null }],
    };
  } finally {
    await installation.stop();
    removeFolder(folder);
  }
}

async function limitedGate(installation: Installation): Promise<string> {
  const gate = await installation.api('POST', '/gates', {
    name: 'replay',
    trust_level: 'L1',
    constraints: {
      allowed_domains: [domain],
      spend_limits: { per_transaction_usd: 500, daily_usd: 1_000_000_000 },
      rate_limits: { requests_per_day: 1_000_000_000 },
    },
  });
  return String(gate['gate_id']);
}

async function decideAll(
  installation: Installation,
  of: { readonly gateId: string; readonly tokens: readonly string[]; readonly batches: number },
): Promise<void> {
  const { gateId, tokens, batches } = of;
  const path = `/v1/gates/${gateId}/check/batch`;
  const pool = new Pool(installation.sidecarOrigin, { connections: atOnce });
  let next = 0;
  const ask = async () => {
    while (next < batches) {
      const first = next++ * batchChecks;
      const checks = Array.from({ length: batchChecks }, (_, place) => ({
        passport: tokens[(first + place) % tokens.length],
        request: (first + place) % blockedEvery === 0 ? { ...request, domain: 'example.org' } : request,
      }));
      const body = JSON.stringify({ checks });
      const answer = await pool.request({ method: 'POST', path, headers: headersOf(installation), body });
      const text = await answer.body.text();
      if (answer.statusCode !== 200) throw new Error(`a batch was answered ${answer.statusCode}: ${text}`);
    }
  };
  try {
    await Promise.all(Array.from({ length: atOnce }, ask));
  } finally {
    await pool.close();
  }
}

async function exported({ controlPlaneOrigin, apiKey }: Installation): Promise<string> {
  const answer = await fetch(`${controlPlaneOrigin}/v1/attestations/export?format=jsonl`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  if (answer.status !== 200) throw new Error(`the export was answered ${answer.status}`);
  return answer.text();
}
