import { parseAttachment } from '../../shared/attestation/attachments.ts';
import { Replay, type ReplayReport } from '../../shared/replay/replay.ts';
import { parseAttestation } from '../../shared/wire/attestation.ts';

/** Decides all of an export in jsonl again. */
export function replayText(text: string): ReplayReport {
  const values: readonly unknown[] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const replay = new Replay();
  for (const statement of values.flatMap((value) => parseAttachment(value) ?? [])) replay.learn(statement);
  const records = values.flatMap((value) => parseAttestation(value) ?? []);
  for (const record of records) replay.note(record);
  for (const record of records) replay.add(record);
  for (const record of records) replay.judge(record);
  return replay.report();
}
