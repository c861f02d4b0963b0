import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseAttachment } from '../../../shared/attestation/attachments.ts';
import { must } from '../../../shared/errors/assert.ts';
import { Replay } from '../../../shared/replay/replay.ts';
import { parseAttestation } from '../../../shared/wire/attestation.ts';

/** Prints the report of a file, read a line at a time, without verifying it: a test has changed its lines. */
const file = must(process.argv[2], 'it is given a file');
const replay = new Replay();
for (const pass of ['learn', 'note', 'add', 'judge'] as const) {
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const value: unknown = JSON.parse(line);
    if (pass === 'learn') {
      const statement = parseAttachment(value);
      if (statement !== null) replay.learn(statement);
      continue;
    }
    const record = parseAttestation(value);
    if (record !== null) replay[pass](record);
  }
}
process.stdout.write(JSON.stringify(replay.report()));
