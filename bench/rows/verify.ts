import { measuredCore } from '../harness/cores.ts';
import { peer, start } from '../harness/programs.ts';
import { interleaved, type Side } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';

/** P6: signature checks of the sidecar's pool on a core, beside `node:crypto`. */
export async function verify({ size, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const secondsEach = { full: 2, quick: 0.5, brief: 0.1 }[size];
  let engine = '';
  const side = (name: string, mode: 'pool' | 'engine' | 'node'): Side => ({
    name,
    measure: async (seconds) => {
      const program = start({ core: measuredCore, command: [...peer('verify'), mode, String(seconds)] });
      const [, perSecond, cores, used = ''] = await program.find(/^RESULT (\S+) (\S+) (\S+)$/m);
      await program.ended;
      if (mode === 'pool') engine = used;
      const coresBusy = Number(cores);
      return { perSecond: Number(perSecond), perCpuSecond: Number(perSecond) / coresBusy, coresBusy };
    },
  });
  const ours = side("the sidecar's pool, one thread", 'pool');
  const bareEngine = side("the pool's engine in a loop", 'engine');
  const theirs = side('crypto.verify', 'node');
  const figures = await interleaved([ours, bareEngine, theirs], { rounds, seconds: secondsEach, say });

  const lines = [
    {
      name: ours.name,
      does: `packs batches of 32, hands them to a thread on the same core, checks with ${engine}, hands the verdicts back`,
      doesNot: 'read the token or its claims, which the event loop does',
      target: null,
    },
    {
      name: bareEngine.name,
      does: 'what no pool with this engine can pass',
      doesNot: 'leave the event loop free: it blocks for as long as it works',
      target: { name: 'hand-over', wanted: 0.9 },
    },
    {
      name: theirs.name,
      does: 'a plain loop, one KeyObject made once',
      doesNot: 'leave the event loop free: it blocks for as long as it works',
      target: wantedOf('P6'),
    },
  ];
  return {
    row: 'verify',
    title: 'Signature checks on one core',
    unit: 'verifications/s',
    rounds,
    secondsEach,
    lines: lines.map((line) => tableLine(line, figures, ours.name)),
    skipped: [],
    notes: [
      'Both check the same 256 tokens of about 600 characters; the whole process, threads included, is pinned to one core.',
    ],
  };
}
