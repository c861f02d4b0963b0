import { isJustified, type ReplayReport } from '../../shared/replay/replay.ts';
import { count, counted } from '../base/count-words.ts';
import { jsonLine } from '../base/print.ts';
import type { TextSink } from '../base/text-sink.ts';
import { textLinesOf } from './export-lines.ts';
import { LineReplay } from './replay-lines.ts';
import { type VerifyExitCode, verifyAttestationsCommand, visibly } from './verify-attestations.ts';

/**
 * `agent-trust attestations replay FILE... --jwks JWKS`: verifies exports, then decides each of their records
 * again by nothing but what they say (docs/replay.md). Reads each file three times, and keeps what they state
 * of policies, passports, approvals and limits in memory. Exit code 0: everything verifies, and nothing
 * contradicts the files; 5: something does not, or does; 2: a file is missing.
 */
export async function replayAttestationsCommand(options: {
  readonly files: readonly string[];
  readonly jwks: string;
  /** The report as JSON. Default: as text. */
  readonly isJson: boolean;
  readonly output: TextSink;
  readonly errors: TextSink;
}): Promise<VerifyExitCode> {
  const { files, jwks, isJson, errors } = options;
  const output = visibly(options.output);
  if (files.includes('-')) {
    errors.write('A replay reads its files more than once: name a file in place of -.\n');
    return 2;
  }
  // The verdict of a report as JSON is its exit code.
  const verdict = isJson ? errors : output;
  const replay = new LineReplay();
  const sees = { see: (line: string) => replay.learn(line) };
  const verified = await verifyAttestationsCommand({ files, jwks, output: verdict, errors, sees });
  if (verified !== 0) return verified;
  for (const pass of ['decide', 'decideAtLimits'] as const) {
    if (errors.isTTY === true) errors.write(`replay: ${passes[pass]}\n`);
    let place = 0;
    for (const file of files) {
      for await (const line of textLinesOf(file)) {
        place += 1;
        if (line === null || replay[pass](line, place) !== 'newer') continue;
        verdict.write(`NOT OK: ${file} holds what only a newer version reads: replay it with the newest.\n`);
        return 5;
      }
    }
  }
  const report = replay.report();
  output.write(isJson ? jsonLine(report) : describe(report));
  return isJustified(report) ? 0 : 5;
}

const passes = { decide: 'decisions', decideAtLimits: 'refusals at limits' } as const;

function describe(report: ReplayReport): string {
  const { decisions, statements, unjudged, contradictions, over_limits: overLimits } = report;
  const total = (kind: 'agrees' | 'contradicted' | 'unjudged') =>
    Object.values(decisions).reduce((sum, counts) => sum + counts[kind], 0);
  const contradicted = total('contradicted') + overLimits.length + report.over_limits_unnamed;
  const heading =
    contradicted === 0
      ? `OK: ${counted(total('agrees'), 'decision')} decided again alike`
      : `NOT OK: ${counted(contradicted, 'contradiction')}; ${counted(total('agrees'), 'decision')} decided again alike`;
  const lines = [
    `${heading}; ${count(total('unjudged'))} not judged, ${counted(statements, 'record')} of ends.`,
    ...Object.entries(unjudged).map(([why, times]) => `  not judged: ${why} ${count(times)}`),
    ...contradictions.map(({ chain_id: chain, sequence, id, decision, reason, fault, expected }) => {
      const was = [decision, reason].filter((word) => word !== null).join(' ');
      const is =
        expected === null
          ? ''
          : `, expected ${[expected.decision, expected.reason].filter(Boolean).join(' ')}`;
      return `  ${chain}, sequence ${sequence} (${id}): ${was}: ${fault}${is}`;
    }),
    ...overLimits.map(
      ({ counter, window, starts_at: startsAt, limit, units }) =>
        `  ${counter}, ${window} from ${startsAt}: ${units} of ${limit}`,
    ),
    ...(report.contradictions_unnamed + report.over_limits_unnamed === 0
      ? []
      : [`  and ${counted(report.contradictions_unnamed + report.over_limits_unnamed, 'other')}`]),
  ];
  return `${lines.join('\n')}\n`;
}
