import { expect } from 'vitest';
import { LineReplay } from '../../../cli/verify/replay-lines.ts';
import { isFactsLine } from '../../../clients/node/src/verify/facts.ts';
import { parseAttachment } from '../../../shared/attestation/attachments.ts';
import { openFacts } from '../../../shared/replay/conditions-by-facts.ts';
import { Replay, type ReplayReport } from '../../../shared/replay/replay.ts';
import { parseAttestation } from '../../../shared/wire/evidence/attestation.ts';
import type { FactsAnswer } from '../../../shared/wire/evidence/fact.ts';

/** Decides all of an export in jsonl again: plainly, and as the command does, which must report the same. */
export function replayText(text: string): ReplayReport {
  const lines: readonly string[] = text.trimEnd().split('\n');
  const values = lines.map((line): unknown => JSON.parse(line));
  const replay = new Replay();
  for (const statement of values.flatMap((value) => parseAttachment(value) ?? [])) replay.learn(statement);
  const records = values.flatMap((value) => parseAttestation(value) ?? []);
  for (const record of records) replay.note(record);
  for (const record of records) replay.add(record);
  const facts = new Map(values.flatMap((value) => (isFactsLine(value) ? [factsOf(value)] : [])));
  for (const [place, record] of records.entries()) replay.judge(record, place, facts.get(record.id));
  const report = replay.report();
  expect(replayLines(lines)).toEqual(report);
  return report;
}

const factsOf = (value: unknown) => {
  const line = value as FactsAnswer;
  return [line.attestation_id, openFacts(line)] as const;
};

function replayLines(lines: readonly string[]): ReplayReport {
  const replay = new LineReplay();
  for (const line of lines) replay.learn(line);
  for (const pass of ['decide', 'decideAtLimits'] as const)
    for (const [place, line] of lines.entries()) replay[pass](line, place);
  return replay.report();
}
